-- Renews a life's lease.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 life, 2 lease in ms, 3 1 it holds jobs or 0
-- RETURNS: 1 it lives, 0 it is gone
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_places.lua
-- @include lua/part_life.lua
if not renew(ARGV[1], math.floor(now_us() / 1000), tonumber(ARGV[2]), ARGV[3] == '1') then return 0 end
return 1
