-- Shared by the lock and the queue: Redis' clock and the record that decides.
-- A record is "<state>:<failures>:<lost>:<fence>:<until>:<owner>", all text:
-- failures that count, leases that ended unanswered, the last fence given out,
-- the end of the lease in ms, and who holds it (or where the job waits).
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local function now_us()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- Numbers beyond 14 digits would be printed with an exponent by tostring.
local function int(n)
  return string.format('%d', n)
end

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
