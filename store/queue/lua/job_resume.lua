-- Lets jobs of a type start again: what was parked meanwhile is moved back by
-- the shard's looks, in bounded steps.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 type
-- RETURNS: 1
-- @include lua/clock.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
redis.call('SREM', PAUSED, ARGV[1])
redis.call('SADD', P .. 'resuming', ARGV[1])
return 1
