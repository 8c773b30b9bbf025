-- Takes the right to build one user's index, or keeps it. From here on every
-- change is written into the index too, so that what is read from SQL after
-- this, together with the index, misses nothing.
-- KEYS: 1 recent (zset), 2 state (hash), 3 build (string)
-- ARGV: 1 token, 2 lifetime of the right in ms, 3 lifetime of the index in ms,
--       4 1 to begin with an empty index, 5 what a holder's token begins with that
--       gives way ('' for none), 6 members from now on, if it is to be a deep one (''
--       leaves that as it is), 7 1 to keep it alone: what was trimmed after it had ended
--       is not known to who had it
-- RETURNS: status 0 another builds, or it has ended, 1 taken; then the relations counter, and the
--          members of a deep index, '' of others
local recent, state, build = KEYS[1], KEYS[2], KEYS[3]
local token, lease, lifetime, reset, yielding, deep = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5], ARGV[6]
local keep = ARGV[7] == '1'

local holder = redis.call('GET', build)
if holder and yielding ~= '' and string.sub(holder, 1, #yielding) == yielding then
  holder = false
end
if holder and holder ~= token or keep and not holder then
  return { 0, '', '' }
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
if deep ~= '' then redis.call('HSET', state, 'd', deep) end
return { 1, redis.call('HGET', state, 'r'), redis.call('HGET', state, 'd') or '' }
