-- Stores the versions of settings that a writer committed and ends the writer's marks. An
-- older entry is removed. Version 0 only ends the mark. Running it twice is the same as once.
-- KEYS: 1.. of each user in turn settings (hash), changing (zset)
-- ARGV: 1 writer ('' for none), 2 lifetime of a version in ms, 3.. version of each user
-- RETURNS: how many were stored; of the others a version at least as new was there
local writer, lifetime = ARGV[1], ARGV[2]
local step, before_versions = 2, 2

local stored = 0
for i = 1, #KEYS, step do
  local settings, changing = KEYS[i], KEYS[i + 1]
  local version = ARGV[before_versions + (i + 1) / step]
  local new = tonumber(version)
  local known = tonumber(redis.call('HGET', settings, 'v') or '')
  if new > 0 and (not known or known < new) then
    redis.call('DEL', settings)
    redis.call('HSET', settings, 'v', version)
    redis.call('PEXPIRE', settings, lifetime)
    stored = stored + 1
  end
  -- This comes last: the mark must stay if the version was not stored.
  if writer ~= '' then
    redis.call('ZREM', changing, writer)
  end
end
return stored
