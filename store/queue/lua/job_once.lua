-- Stores jobs together with the idempotency record of the call that made them.
-- KEYS: 1 the shard's live records
-- ARGV: 1 retention of marks in ms, 2 retention of groups in ms, 3 request id,
--       4 number of jobs, 5 name of the idempotency record, 6 digest of the
--       body, 7 the answer to store, 8 its lifetime in ms, then the jobs
-- RETURNS: {1 stored, entries waiting, per job its id and 1 new or 0 not},
--          {2 replayed, entries waiting, the stored answer} or {3 other body}
-- @include lua/record.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
-- @include lua/part_bucket.lua
-- @include lua/part_group.lua
-- @include lua/part_end.lua
-- @include lua/part_enqueue.lua
local group_ttl, rid, jobs = tonumber(ARGV[2]), ARGV[3], math.min(tonumber(ARGV[4]), 1000)
local key, digest = P .. 'idem:' .. ARGV[5], ARGV[6]
local old = redis.call('GET', key)
if old then
  if string.sub(old, 1, #digest) ~= digest then return { 3 } end
  if string.sub(old, #digest + 1, #digest + #rid) ~= rid then
    return { 2, redis.call('XLEN', MAIN), string.sub(old, #digest + #rid + 1) }
  end
end
local out = enqueue_all(9, rid, jobs, math.floor(now_us() / 1000))
save(group_ttl)
redis.call('SET', key, digest .. rid .. ARGV[7], 'PX', ARGV[8])
out[2] = redis.call('XLEN', MAIN)
return out
