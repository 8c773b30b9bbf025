-- Queues a dead letter again: attempts and lost leases start at 0, the fence
-- and the job's attachment stay. It names no guard any more: a dead letter may
-- outlive what was written there, and nothing there would say nothing.
-- KEYS: 1 the shard's live records
-- ARGV: 1 id, 2 retention of groups in ms, 3 name of the idempotency record or
--       '', 4 digest of the body, 5 the answer to store, 6 its lifetime in ms,
--       7 request id
-- RETURNS: {1 queued}, {2 replayed, the stored answer}, {3 other body},
--          {0 no such dead letter}, {4 its unique id belongs to another job},
--          {5 it is queued again already}
-- @include lua/record.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
-- @include lua/part_bucket.lua
-- @include lua/part_group.lua
-- @include lua/part_end.lua
local id, group_ttl, key, digest, rid = ARGV[1], tonumber(ARGV[2]), P .. 'idem:' .. ARGV[3], ARGV[4], ARGV[7]
local old = ARGV[3] ~= '' and redis.call('GET', key)
if old then
  if string.sub(old, 1, #digest) ~= digest then return { 3 } end
  if string.sub(old, #digest + 1, #digest + #rid) == rid then return { 1 } end
  return { 2, string.sub(old, #digest + #rid + 1) }
end
local eid = redis.call('HGET', DEADIDS, id)
if not eid then return { redis.call('HEXISTS', JOBS, id) == 1 and 5 or 0 } end
local v = redis.call('XRANGE', DEAD, eid, eid, 'COUNT', 1)[1][2]
local e, label, fence = entry_of(v), v[24], v[28]
if e.u ~= '' then
  local other = redis.call('HGET', UNIQUES, e.u)
  if other and other ~= id then return { 4 } end
  redis.call('HSET', UNIQUES, e.u, id)
end
forget_dead(eid, e)
count(e.g, label, -1)
e.s, e.w = int(math.floor(now_us() / 1000)), ''
admit(e, { failures = 0, lost = 0, fence = fence }, 'm')
save(group_ttl)
if ARGV[3] ~= '' then redis.call('SET', key, digest .. rid .. ARGV[5], 'PX', ARGV[6]) end
return { 1 }
