-- Enqueues the job of a dead letter again: its failures and ended leases start at 0.
-- KEYS: 1 begins the keys of the group, 2 a key that never exists
-- ARGV: 1 id of the job with its queue, 2 and 3 of no use here, 4 name of the idempotency record or '', 5 digest of the body, 6 the
--       answer to store, 7 its lifetime in ms, 8 the letter's own id in the stream, or '': the last letter of the job
-- RETURNS: {1 queued}, {2 replayed, the stored answer}, {3 other body}, {0 no such dead letter}, {4 its unique name belongs
--          to another job}, {5 its job is queued again already}, {6 the queue is full}
-- A queue with dead letters exists, so no retry makes one queue too many. Jobs of the same key that are due, and were enqueued
-- before, need not be seen to here: the next claim lets them overtake this one (part_due.lua).
-- @include lua/clock.lua
-- @include lua/part_queue.lua
local ms = math.floor(now_us() / 1000)
-- @include lua/part_ready.lua
-- @include lua/part_life.lua
-- @include lua/part_save.lua
local whole, record, digest = ARGV[1], P .. 'idem:' .. ARGV[4], ARGV[5]
local old = ARGV[4] ~= '' and redis.call('GET', record)
if old then
  if string.sub(old, 1, #digest) ~= digest then return { 3 } end
  return { 2, string.sub(old, #digest + 1) }
end
local last = redis.call('HGET', P .. 'deadids', whole)
local eid = ARGV[8] ~= '' and ARGV[8] or last
local letter = eid and redis.call('XRANGE', P .. 'dead', eid, eid, 'COUNT', 1)[1]
local name, id = string.match(whole, '^(.*)%.(%w+)$')
if not id or not letter and ARGV[8] ~= '' then return { 0 } end
local q = queue_of(name)
if redis.call('HEXISTS', q.k .. 'jobs', id) == 1 then return { 5 } end
if not letter then return { 0 } end
if eid ~= last then return { 5 } end
if redis.call('HLEN', q.k .. 'jobs') >= MOST then return { 6 } end
local v = letter[2]
local e = { kind = v[4], key = v[6], unique = v[8], seq = q.seq + 1 }
if e.unique ~= '' then
  if redis.call('HGET', q.k .. 'unique', e.unique) then return { 4 } end
  redis.call('HSET', q.k .. 'unique', e.unique, id)
end
q.seq, q.use = e.seq, true
redis.call('HSET', q.k .. 'jobs', id, table.concat({ (e.key .. e.unique == '' and 'p' or 'x') .. int(e.seq), int(ms), '', e.kind, e.key, e.unique, v[12] }, '\31') .. '\0' .. v[18])
admit(q, id, e)
redis.call('XDEL', P .. 'dead', eid)
redis.call('HDEL', P .. 'deadids', whole)
redis.call('ZREM', P .. 'deadof:' .. name, eid)
save_queues()
if ARGV[4] ~= '' then redis.call('SET', record, digest .. ARGV[6], 'PX', ARGV[7]) end
return { 1 }
