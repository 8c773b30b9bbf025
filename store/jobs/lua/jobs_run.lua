-- Makes calls of one group of queues. A process numbers its runs, so that a run whose answer was lost may be sent again:
-- it does nothing then and answers the same, and a run that arrives after a later one of its series does nothing either.
-- KEYS: 1 begins the keys of the group, 2 a key that never exists
-- ARGV: 1 series, 2 number of the run, 3 lifetime of its answer in ms, 4 how long ago Redis was back from an absence, in ms, or '',
--       5 shortest backoff in ms, 6 longest one, 7 most age in ms of a job that only ever waited, or -1, 8 l if dead letters are
--       left for the relay of facts, or '', then of each call: what, the number of its arguments, and these (see CALLS, which get the place of the first)
-- RETURNS: {0} a later run was made before, or {1, then of each call a list: its status and what belongs to it as a text, and
--          the time until a job of the queue is due in ms or -1; of a claim with jobs also their fence, and of each job id,
--          history or '', text, and what is left of its lease in ms}
-- @include lua/clock.lua
-- @include lua/part_queue.lua
local series, number = P .. 'run:' .. ARGV[1], tonumber(ARGV[2])
local us = now_us()
local ms = math.floor(us / 1000)
local back = ARGV[4] ~= '' and ms - tonumber(ARGV[4])
local base, longest, max_age = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local last = redis.call('GET', series)
local seen = last and tonumber(string.match(last, '^%d+')) or 0
if seen > number then return { 0 } end
-- A full Redis refuses this write, if it is the first, and none of those after the next one.
local written = redis.pcall('SET', series, last or '0 ', 'PX', ARGV[3])
local full = type(written) == 'table' and written.err
if full and not string.find(full, 'OOM ', 1, true) then return written end
if full then redis.call('DEL', NEVER) end
-- @include lua/part_ready.lua
-- @include lua/part_life.lua
-- @include lua/fact_leave.lua
if ARGV[8] ~= '' then
  local plain = bury
  bury = function(q, id, e, reason, h, fence)
    local eid = plain(q, id, e, reason, h, fence)
    leave_fact('dead', eid, '', cjson.encode({ i = q.name .. '.' .. id, reason = reason, attempts = int(h.failures), class = e.kind .. '\31' .. q.name }))
  end
end
-- @include lua/part_hold.lua
-- @include lua/part_due.lua

-- CALLS answer with a status, and what belongs to it: 1 done, 3 no room, 4 too late, 7 another body, 8 done before,
-- 9 there is no such queue or job, 10 Redis is full, 11 too far ahead, 13 this run has no bytes left, and the next one has.
local CALLS = {}
-- @include lua/part_enqueue.lua
-- @include lua/part_claim.lua
-- @include lua/part_outcome.lua
-- @include lua/part_result.lua
-- @include lua/part_change.lua
-- @include lua/part_save.lua

local before = {}
if seen == number then
  for answer in string.gmatch(last, '\30([^\30]*)') do before[#before + 1] = answer end
end

-- run makes one call, or repeats its answer, and returns that with what belongs to it.
local function run(what, at, n, known)
  local out = { known or '', -1 }
  if not known then
    out[1] = CALLS[what](at, n, out)
  elseif what == 'claim' and string.find(known, '^[18],') then
    list_held(queue_of(ARGV[at]), string.sub(known, 3), out)
  end
  if what == 'claim' then
    local first = redis.call('ZRANGE', queue_of(ARGV[at]).k .. 'due', 0, 0, 'WITHSCORES')[2]
    if first then out[2] = math.max(0, tonumber(first) - ms) end
  end
  return out
end

local answers, saved, i = { 1 }, {}, 9
for _ = 9, #ARGV do
  if i > #ARGV then break end
  local n = tonumber(ARGV[i + 1])
  local out = run(ARGV[i], i + 2, n, before[#saved + 1])
  saved[#saved + 1], answers[#answers + 1] = out[1], out
  i = i + 2 + n
end
save_queues()
redis.call('SET', series, int(number) .. ' \30' .. table.concat(saved, '\30'), 'PX', ARGV[3])
return answers
