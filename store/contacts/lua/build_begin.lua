-- Takes the right to build one user's index, or extends it. From here on every change is
-- written into the index too. So the contacts that are read from SQL after this, together
-- with the index, are complete.
-- KEYS: 1 recent (zset), 2 state (hash), 3 build (string)
-- ARGV: 1 token, 2 lifetime of the right in ms, 3 lifetime of the index in ms,
--       4 1 to begin with an empty index, 5 a holder whose token begins with this
--       loses the right ('' for none), 6 1 only to extend the right: if it has ended, the
--       former holder does not know what was trimmed since
-- RETURNS: status 0 another process builds, or the right to extend has ended, 1 taken;
--          then the relations counter
local recent, state, build = KEYS[1], KEYS[2], KEYS[3]
local token, lease, lifetime, reset, yielding = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5]
local keep = ARGV[6] == '1'

local holder = redis.call('GET', build)
if holder and yielding ~= '' and string.sub(holder, 1, #yielding) == yielding then
  holder = false
end
if holder and holder ~= token or keep and not holder then
  return { 0, '' }
end
redis.call('SET', build, token, 'PX', lease)
if redis.call('EXISTS', state) == 0 or (reset and not holder) then
  local time = redis.call('TIME')
  local now = string.format('%.0f', time[1] * 1000000 + time[2])
  redis.call('DEL', recent, state)
  redis.call('HSET', state, 'q', now, 'r', now, 'u', 1)
  redis.call('PEXPIRE', state, lifetime)
elseif not holder then
  redis.call('HDEL', state, 'bs', 'bm')
end
return { 1, redis.call('HGET', state, 'r') }
