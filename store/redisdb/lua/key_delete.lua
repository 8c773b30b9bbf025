-- Deletes a key whose value is still the caller's own.
-- KEYS: 1 the key (string)
-- ARGV: 1 the value
-- RETURNS: 0 it holds another value, or none: nothing changed, 1 deleted
local key, value = KEYS[1], ARGV[1]

if redis.call('GET', key) ~= value then
  return 0
end
return redis.call('DEL', key)
