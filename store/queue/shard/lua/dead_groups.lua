-- Counts dead letters by reason and class.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 most letters to count in this call
-- RETURNS: {1 some may be left to count or 0, dead letters, group, its count, and so on}
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_dead.lua
redis.call('DEL', NEVER) -- a script whose first write frees memory is not refused by a full Redis
local more = count_dead(math.floor(now_us() / 1000), tonumber(ARGV[1]))
-- bounded: a shard tells at most 1,000 groups apart
return { more and 1 or 0, redis.call('XLEN', DEAD), redis.call('HGETALL', DEADN) }
