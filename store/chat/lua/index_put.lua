-- Enters a chat into a user's index under a new stamp, higher than any before:
-- the time in us.
-- KEYS: 1 index (zset)
-- ARGV: 1 chat
-- RETURNS: the stamp
local index, chat = KEYS[1], ARGV[1]

local time, before = redis.call('TIME'), redis.call('ZSCORE', index, chat)
local stamp = time[1] * 1000000 + time[2]
if before then stamp = math.max(stamp, tonumber(before) + 1) end
stamp = string.format('%.0f', stamp)
redis.call('ZADD', index, stamp, chat)
return stamp
