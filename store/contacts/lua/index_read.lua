-- Reads the first entries of one user's index.
-- KEYS: 1 recent (zset), 2 state (hash)
-- ARGV: 1 how many entries
-- RETURNS: status 0 there is no index, 1 it can be trusted above its floor, 2 it
--          is being built; then sequence, floor's score and contact ('' for no
--          floor), number of members, contacts and scores in turn
local recent, state = KEYS[1], KEYS[2]
local count = tonumber(ARGV[1])

local s = redis.call('HMGET', state, 'q', 'u', 'fs', 'fm')
if not s[1] then
  return { 0 }
end
local entries = redis.call('ZREVRANGE', recent, 0, count - 1, 'WITHSCORES')
return { s[2] and 2 or 1, s[1], s[3] or '', s[4] or '', redis.call('ZCARD', recent), entries }
