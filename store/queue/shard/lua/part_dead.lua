-- Dead letters that go.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, STATS, DEAD, DEADIDS
-- GIVES: forget_dead, trim_dead
local function forget_dead(eid, id)
  redis.call('XDEL', DEAD, eid)
  if redis.call('HGET', DEADIDS, id) == eid then redis.call('HDEL', DEADIDS, id) end
end

-- trim_dead drops old dead letters, and tells whether there may be more to drop.
local function trim_dead(ms, dead_ttl, dead_max, step)
  local over, gone = redis.call('XLEN', DEAD) - dead_max, 0
  for _, one in ipairs(redis.call('XRANGE', DEAD, '-', '+', 'COUNT', over > 0 and step or 2)) do
    local born = tonumber(string.match(one[1], '^%d+'))
    if gone >= over and ms - born < dead_ttl then break end
    forget_dead(one[1], one[2][2])
    if one[2][16] ~= '' then redis.call('DEL', P .. 'attach:' .. one[2][2]) end
    gone = gone + 1
  end
  if gone > 0 then redis.call('HINCRBY', STATS, 'dropped', gone) end
  return gone > 1
end
