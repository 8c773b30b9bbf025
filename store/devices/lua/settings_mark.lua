-- Marks the settings of users as changing: readers find no entry, and no fill is accepted
-- until this writer stores its version or the mark ends. The version stays: another
-- writer may have stored it just now. Running it twice is the same as once.
-- KEYS: 1.. of each user in turn settings (hash), changing (zset)
-- ARGV: 1 writer, 2 lifetime of the mark in ms
-- RETURNS: 0
local writer, lifetime = ARGV[1], tonumber(ARGV[2])
local step = 2
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- This comes first, so that it happens even if Redis has no memory for the marks.
for i = 1, #KEYS, step do
  redis.call('HDEL', KEYS[i], 'd')
end
for i = 1, #KEYS, step do
  local changing = KEYS[i + 1]
  redis.call('ZREMRANGEBYSCORE', changing, 0, now)
  redis.call('ZADD', changing, now + lifetime, writer)
  redis.call('PEXPIRE', changing, lifetime)
end
return 0
