-- Removes what is cached of a user whose settings are gone from SQL, unless it is newer. Running
-- it twice is the same as once.
-- KEYS: 1 settings (hash)
-- ARGV: 1 a version above all that the user had
-- RETURNS: 0 there is nothing, or it is newer, 1 removed
local settings, version = KEYS[1], tonumber(ARGV[1])

local known = tonumber(redis.call('HGET', settings, 'v') or '0')
if known >= version then
  return 0
end
return redis.call('DEL', settings)
