-- Forgets a dead letter, and its attachment unless that belongs to a later letter of the job.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 id, 2 the letter's own id in the stream, or '': the last letter of the job
-- RETURNS: 1 it is gone, 0 there was none
-- @include lua/part_shard.lua
-- @include lua/part_dead.lua
local eid, v, last = dead_of(ARGV[1], ARGV[2])
if not eid then return 0 end
forget_dead(eid, v)
if last then redis.call('DEL', P .. 'attach:' .. ARGV[1]) end
return 1
