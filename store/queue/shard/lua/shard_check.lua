-- Gives others what blocking reads were given and nobody claimed: a connection may
-- have died under the read.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 ms that an entry may stay unclaimed, 2 retention of tombstones in ms,
--       3 of groups, 4 of reports
-- RETURNS: how many entries blocking reads still hold
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_text.lua
-- @include lua/part_stream.lua
-- @include lua/part_write.lua
-- @include lua/part_tombstone.lua
-- @include lua/part_group.lua
-- @include lua/part_report.lua
-- @include lua/part_end.lua
-- @include lua/part_session.lua
-- @include lua/part_back.lua
local held = put_back_unclaimed(tonumber(ARGV[1]), 100, { retention = tonumber(ARGV[2]), most = 1e9 })
save(tonumber(ARGV[3]), tonumber(ARGV[4]))
return held
