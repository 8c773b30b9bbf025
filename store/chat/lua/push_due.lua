-- Lists the chats of a bucket in which pushes have been due for some time.
-- KEYS: 1 due (zset) of the bucket
-- ARGV: 1 how long in ms, 2 most chats
-- RETURNS: the chats, the longest due first
local due, age, limit = KEYS[1], tonumber(ARGV[1]), ARGV[2]

local time = redis.call('TIME')
local since = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) - age)
return redis.call('ZRANGEBYSCORE', due, '-inf', since, 'LIMIT', 0, limit)
