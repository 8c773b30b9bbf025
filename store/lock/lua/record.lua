-- The record that decides, and how it is read and written.
-- A record is "<state>:<failures>:<lost>:<fence>:<until>:<owner>", all text: failures
-- that count (a lease that ended unanswered is one), a 0, the last fence given out, the
-- end of the lease in ms, and who holds it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- @include lua/clock.lua
-- The counters stay text, which is how they are mostly written back; a fence is
-- always text, because it has too many digits for tostring.
local function read_record(text)
  if not text then return nil end
  local s, a, l, f, u, o = string.match(text, '^(%a):(%d+):(%d+):(%d+):(%d+):(.*)$')
  if not s then return nil end
  return { state = s, failures = a, lost = l, fence = f, till = tonumber(u), owner = o }
end

local function text_of(r)
  return r.state .. ':' .. r.failures .. ':' .. r.lost .. ':' .. r.fence .. ':' .. r.till .. ':' .. r.owner
end

-- Fences only rise, also after a record expired: the clock is the floor.
local function next_fence(last, us)
  return int(math.max(last + 1, us))
end
