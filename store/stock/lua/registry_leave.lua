-- Takes a sale whose keys were removed out of the registry, unless it was entered again meanwhile.
-- Naturally idempotent.
-- KEYS: 1 registry (hash)
-- ARGV: 1 sale, 2 its entry before its keys were removed
-- RETURNS: 0 it has another entry, or none, 1 it is out
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
