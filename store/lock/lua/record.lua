-- How the record of a lock is read and written.
-- A record is "<state>:<failures>:<most>:<fence>:<until>:<owner>", all text: R held or Q free,
-- the failures that count (a lease that ended without a result is one), the number of attempts that
-- the first acquire had (0: each contender has its own), the last fence given out, the end of the
-- lease in ms, and the request that holds it, or the outcome of the last hold.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- @include lua/clock.lua
-- The counters stay text, which is how they are mostly written back; a fence is
-- always text, because it has too many digits for tostring.
local function read_record(text)
  if not text then return nil end
  local s, a, m, f, u, o = string.match(text, '^(%a):(%d+):(%d+):(%d+):(%d+):(.*)$')
  if not s then return nil end
  return { state = s, failures = a, most = m, fence = f, till = tonumber(u), owner = o }
end

local function text_of(r)
  return r.state .. ':' .. r.failures .. ':' .. r.most .. ':' .. r.fence .. ':' .. r.till .. ':' .. r.owner
end

-- lease_end is when a lease is over that begins at ms: never before its time, although ms is cut.
local function lease_end(ms, lease)
  return ms + 1 + lease
end

-- left_of is how many ms of a lease are left at least, although ms is cut. Below 0 it is over.
local function left_of(r, ms)
  return r.till - ms - 1
end

-- Fences only rise, also after a record has expired: none is below the clock in microseconds.
local function next_fence(last, us)
  return int(math.max(last + 1, us))
end
