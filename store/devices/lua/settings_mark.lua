-- Marks a user's settings as changing: readers find no entry, and no fill is accepted
-- until this writer stores its version or the mark ends. The version stays: another
-- writer may have stored it just now. Running it twice is the same as once.
-- KEYS: 1 settings (hash), 2 changing (zset)
-- ARGV: 1 writer, 2 lifetime of the mark in ms
-- RETURNS: 0
local settings, changing = KEYS[1], KEYS[2]
local writer, lifetime = ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- This comes first, so that it happens even if Redis has no memory for the mark.
redis.call('HDEL', settings, 'd')
redis.call('ZREMRANGEBYSCORE', changing, 0, now)
redis.call('ZADD', changing, now + lifetime, writer)
redis.call('PEXPIRE', changing, lifetime)
return 0
