-- Reads a page of a user's index, the oldest joins first.
-- KEYS: 1 index (zset)
-- ARGV: 1 stamp of the last entry of the page before or '', 2 its chat, 3 most
--       entries
-- RETURNS: the time in us, then the entries: chat and stamp in turn
local index, stamp, chat, limit = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

local from, time = 0, redis.call('TIME')
if stamp ~= '' then
  local rank = redis.call('ZSCORE', index, chat) and redis.call('ZRANK', index, chat)
  from = rank and rank + 1 or redis.call('ZCOUNT', index, '-inf', '(' .. stamp)
end
local entries = redis.call('ZRANGE', index, from, from + limit - 1, 'WITHSCORES')
return { string.format('%.0f', time[1] * 1000000 + time[2]), entries }
