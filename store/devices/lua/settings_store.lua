-- Stores the version of settings that a writer committed and ends the writer's mark. An
-- older entry is removed. Version 0 only ends the mark. Running it twice is the same as once.
-- KEYS: 1 settings (hash), 2 changing (zset)
-- ARGV: 1 writer ('' for none), 2 version, 3 lifetime of the version in ms
-- RETURNS: 0 stored, 1 a version at least as new was there
local settings, changing = KEYS[1], KEYS[2]
local writer, new, lifetime = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local status = 1
local known = tonumber(redis.call('HGET', settings, 'v') or '')
if new > 0 and (not known or known < new) then
  redis.call('DEL', settings)
  redis.call('HSET', settings, 'v', ARGV[2])
  redis.call('PEXPIRE', settings, lifetime)
  status = 0
end
-- This comes last: the mark must stay if the version was not stored.
if writer ~= '' then
  redis.call('ZREM', changing, writer)
end
return status
