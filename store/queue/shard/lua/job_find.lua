-- Tells what is on record of a named job.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 id, 2 its group or ''
-- RETURNS: {0 nothing}, {1 it lives, what its record says}, {2 it is a dead letter, its reason, when it
--          died in ms}, {3 it has ended, what its tombstone says}
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_write.lua
-- @include lua/part_tombstone.lua
local id = ARGV[1]
local lives = redis.call('HGET', record_of(id), id)
if lives then return { 1, lives } end
local eid = redis.call('HGET', DEADIDS, id)
local dead = eid and redis.call('XRANGE', DEAD, eid, eid, 'COUNT', 1)[1]
if dead then return { 2, dead[2][20], tonumber(string.match(eid, '^%d+')) } end
for _, key in ipairs(buckets_of({ i = id, g = ARGV[2] })) do
  local ended = redis.call('HGET', key, id)
  if ended then return { 3, ended } end
end
return { 0 }
