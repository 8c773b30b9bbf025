-- Forgets a dead letter and its attachment.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 id
-- RETURNS: 1 it is gone, 0 there was none
-- @include lua/part_shard.lua
-- @include lua/part_dead.lua
local eid = redis.call('HGET', DEADIDS, ARGV[1])
if not eid then return 0 end
forget_dead(eid, redis.call('XRANGE', DEAD, eid, eid, 'COUNT', 1)[1][2])
redis.call('DEL', P .. 'attach:' .. ARGV[1])
return 1
