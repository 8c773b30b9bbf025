-- Stores jobs; each whose id or unique id is there already has no effect.
-- KEYS: 1 the shard's live records
-- ARGV: 1 retention of marks in ms, 2 retention of groups in ms, 3 request id,
--       4 number of jobs, then the jobs (part_enqueue.lua)
-- RETURNS: {1, entries waiting, then per job: its id, 1 new or 0 not}
-- @include lua/record.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
-- @include lua/part_bucket.lua
-- @include lua/part_group.lua
-- @include lua/part_end.lua
-- @include lua/part_enqueue.lua
local group_ttl, rid, jobs = tonumber(ARGV[2]), ARGV[3], math.min(tonumber(ARGV[4]), 1000)
local out = enqueue_all(5, rid, jobs, math.floor(now_us() / 1000))
save(group_ttl)
out[2] = redis.call('XLEN', MAIN)
return out
