-- Lets jobs of a type start again: what was parked meanwhile is moved back by
-- the shard's maintenance, in bounded steps.
-- KEYS: 1 the shard's live records
-- ARGV: 1 type
-- RETURNS: 1
local prefix = string.sub(KEYS[1], 1, -5)
redis.call('SREM', prefix .. 'paused', ARGV[1])
redis.call('SADD', prefix .. 'resuming', ARGV[1])
return 1
