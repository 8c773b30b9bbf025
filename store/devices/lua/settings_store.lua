-- Stores the version of settings that a writer committed and ends its mark.
-- An entry older than that goes. Version 0 only ends the mark. Running it
-- twice is the same as once.
-- KEYS: 1 settings (hash), 2 version (string), 3 changing (zset)
-- ARGV: 1 writer ('' for none), 2 version, 3 lifetime of the version in ms
-- RETURNS: 0 stored, 1 a version at least as new was there
local settings, version, changing = KEYS[1], KEYS[2], KEYS[3]
local writer, new, lifetime = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local entry = tonumber(redis.call('HGET', settings, 'v') or '')
if entry and entry < new then
  redis.call('DEL', settings)
end
local status = 1
if new > 0 then
  local stored = tonumber(redis.call('GET', version) or '')
  if not stored or stored < new then
    redis.call('SET', version, ARGV[2], 'PX', lifetime)
    status = 0
  end
end
-- Last: without the version the mark must stay.
if writer ~= '' then
  redis.call('ZREM', changing, writer)
end
return status
