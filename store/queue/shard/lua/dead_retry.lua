-- Queues a dead letter again: attempts and lost leases start at 0, the fence
-- and the job's attachment stay. It names no guard any more: a dead letter may
-- outlive what was written there, and nothing there would say nothing.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 id, 2 retention of groups in ms, 3 of reports, 4 name of the idempotency
--       record or '', 5 digest of the body, 6 the answer to store, 7 its lifetime
--       in ms, 8 the letter's own id in the stream, or '': the last letter of the job
-- RETURNS: {1 queued}, {2 replayed, the stored answer}, {3 other body},
--          {0 no such dead letter}, {4 its unique id belongs to another job},
--          {5 its job is queued again already, or was since}
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_text.lua
-- @include lua/part_stream.lua
-- @include lua/part_admit.lua
-- @include lua/part_write.lua
-- @include lua/part_group.lua
-- @include lua/part_report.lua
-- @include lua/part_dead.lua
local id, key, digest = ARGV[1], P .. 'idem:' .. ARGV[4], ARGV[5]
local old = ARGV[4] ~= '' and redis.call('GET', key)
if old then
  if string.sub(old, 1, #digest) ~= digest then return { 3 } end
  return { 2, string.sub(old, #digest + 1) }
end
local eid, v, last = dead_of(id, ARGV[8])
if not eid and ARGV[8] ~= '' then return { 0 } end
if redis.call('HEXISTS', record_of(id), id) == 1 then return { 5 } end -- also by an enqueueing after its tombstone was over
if not eid then return { 0 } end
if not last then return { 5 } end
local ms = math.floor(now_us() / 1000)
local e = { i = v[2], t = v[4], k = v[6], u = v[8], g = v[10], w = '', s = int(ms), a = v[16], p = v[18], f = 0, l = 0, n = v[28], r = '1',
  report = v[30] == '1' }
if e.u ~= '' then
  local other = redis.call('HGET', UNIQUES, e.u)
  if other and other ~= id then return { 4 } end
  redis.call('HSET', UNIQUES, e.u, id)
end
forget_dead(eid, v)
redis.call('HSET', record_of(id), id, '1')
count(e.g, v[24], -1)
count_reason(e.g, v[24], v[20], -1)
if e.report then report_state(id, 'Q') end
admit(e, 'm', ms)
save_groups(tonumber(ARGV[2]))
save_reports(tonumber(ARGV[3]))
if ARGV[4] ~= '' then redis.call('SET', key, digest .. ARGV[6], 'PX', ARGV[7]) end
return { 1 }
