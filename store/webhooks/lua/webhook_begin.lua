-- Sets the position of a webhook in a lane.
-- KEYS: 1 progress (hash)
-- ARGV: 1 position, 2 lifetime in ms
-- RETURNS: 1
local progress, position, life = KEYS[1], ARGV[1], ARGV[2]
redis.call('PEXPIRE', progress, life)
redis.call('HSET', progress, 'pos', position)
redis.call('PEXPIRE', progress, life)
return 1
