-- Fills a user's entry with the settings that a reader found in SQL, unless somebody is
-- changing them, a newer version is known, or the reader took too long.
-- KEYS: 1 settings (hash), 2 changing (zset)
-- ARGV: 1 version read, 2 when the reader began in ms (Redis time), 3 longest
--       allowed reading time in ms, 4 lifetime of the entry in ms,
--       5.. field and value in turn
-- RETURNS: 0 filled, 1 changing, 2 older than what is known, 3 too slow
local settings, changing = KEYS[1], KEYS[2]
local read, began = tonumber(ARGV[1]), tonumber(ARGV[2])
local patience, lifetime = tonumber(ARGV[3]), ARGV[4]
local first, step = 5, 100
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

if now - began > patience then
  return 3
end
if redis.call('ZCOUNT', changing, now + 1, '+inf') > 0 then
  return 1
end
local known = tonumber(redis.call('HGET', settings, 'v') or '')
if known and known > read then
  return 2
end
redis.call('DEL', settings)
redis.call('HSET', settings, 'v', ARGV[1])
-- In steps, because a Lua call takes a limited number of arguments.
for from = first, #ARGV, step do
  redis.call('HSET', settings, unpack(ARGV, from, math.min(from + step - 1, #ARGV)))
end
redis.call('PEXPIRE', settings, lifetime)
return 0
