-- A life is one process' share of a shard from its start to its end: the consumer
-- in whose pending lists its jobs are, and the lease on all of them.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local IDLE = 3 -- leases until a life with nothing in hand is taken for dead

-- holds tells whether a life has anything pending. What its process believes may be older
-- than a claim that is under way.
local function holds(life)
  for _, letter in ipairs({ 'm', 'r', 'a' }) do
    if redis.call('XPENDING', STREAM[letter], 'g', '-', '+', 1, life)[1] then return true end
  end
  return false
end

-- The first write of a script decides whether a full Redis refuses it: whatever
-- frees memory must begin with a command that none refuses.
local function renew(life, ms, lease, busy)
  if redis.call('ZREM', OWNERS, life) == 0 then return false end
  redis.call('ZADD', OWNERS, int(ms + lease * ((busy or holds(life)) and 1 or IDLE)), life)
  return true
end

-- fence_of is the fence that a life's claim of a job had.
local function fence_of(life, fence)
  return int(math.max(tonumber(string.match(life, '%d+$')), tonumber(fence) + 1))
end

local function disown(letter, eid)
  redis.call('XACK', STREAM[letter], 'g', eid)
  redis.call('XDEL', STREAM[letter], eid)
end
