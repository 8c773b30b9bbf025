-- Reads a job.
-- KEYS: 1 begins the keys of the group, 2 a key that never exists
-- ARGV: 1 queue, 2 id
-- RETURNS: {'' unknown}, {'D' done or 'C' cancelled}, {'X', and of its dead letter, if there is one, the fields and values}, or
--          {a state, text, history or '', hold or '', when it is due in ms or 0, Redis' time in ms}. The states: q may be claimed,
--          s waits for its time, b blocked by its key, r held
-- @include lua/clock.lua
-- @include lua/part_queue.lua
local ms = math.floor(now_us() / 1000)
-- @include lua/part_ready.lua
-- @include lua/part_life.lua
local q, id = queue_of(ARGV[1]), ARGV[2]
local text = redis.call('HGET', q.k .. 'jobs', id)
if not text then
  local eid = redis.call('HGET', P .. 'deadids', q.name .. '.' .. id)
  local letter = eid and redis.call('XRANGE', P .. 'dead', eid, eid, 'COUNT', 1)[1]
  if letter then return { 'X', letter[2] } end
  return { ended_as(q, id) or '' }
end
local held, due = redis.call('HGET', q.k .. 'held', id), redis.call('ZSCORE', q.k .. 'due', id)
local e = parse(text)
local state = held and 'r' or due and 's' or 'q'
if state == 'q' and e.key ~= '' and redis.call('HGET', q.k .. 'heads', e.key) ~= id then state = 'b' end
return { state, text, redis.call('HGET', q.k .. 'hist', id) or '', held or '', tonumber(due or 0), ms }
