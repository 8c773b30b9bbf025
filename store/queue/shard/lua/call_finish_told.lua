-- Records what became of a session's jobs, tells facts, and claims the next jobs.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: those of part_call.lua, then 1 retention of tombstones in ms, 2 of groups,
--       3 of reports, 4 most attempts, 5 most age in ms or -1, 6 jobs that are
--       done and hold nothing: each place, id or '', report; 7 other jobs, each 13:
--       place, outcome, head (text without payload), fence, label, counts as
--       JSON or '', delay in ms, 1 and the new payload or '', name to
--       park under or note, reason, error, report, class or lines of failures; 8 marked jobs, each id, report or '',
--       number of values, which follow: name, value and so on; 9 ids of jobs whose
--       marks go, 10 what is left for the relay when jobs end (part_facts.lua), 11 number of facts, each 5 and behind all others:
--       number of its job among the jobs or 0 for a mark, 1 if its lane is that of this slot or 0, type, key, data
-- RETURNS: as part_call.lua; the answer is a digit per job, the done ones first:
--          1 recorded, 0 lost, 2 dead
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_text.lua
-- @include lua/part_stream.lua
-- @include lua/part_parked_bytes.lua
-- @include lua/part_later.lua
-- @include lua/part_write.lua
-- @include lua/part_tombstone.lua
-- @include lua/part_group.lua
-- @include lua/part_report.lua
-- @include lua/part_end.lua
-- @include lua/part_session.lua
-- @include lua/part_call.lua
-- @include lua/part_moves.lua
-- @include lua/part_finish.lua
-- @include lua/fact_append.lua
-- @include lua/fact_leave.lua
-- @include lua/part_facts.lua
local own = 10 + tonumber(ARGV[10]) -- before the script's own arguments
tell_of(ARGV[own + 10])

-- here_now gives the data of a fact about a job of this slot. Only an event's own mark tells that it is cancelled.
local function here_now(typ, key, data)
  if typ == 'event.done' and redis.call('HGET', P .. 'report:' .. string.sub(key, 1, 6), string.sub(key, 7) .. '!') then
    return string.gsub(data, '"state":"%a+"', '"state":"cancelled"', 1)
  end
  return data
end

-- tell tells the facts from ARGV[from] on, of results that are recorded.
local function tell(call, answers, from)
  for i = from, from + 5 * tonumber(ARGV[own + 11]) - 1, 5 do
    local job, here, typ, key, data = tonumber(ARGV[i]), ARGV[i + 1] == '1', ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
    local recorded = job == 0 or answers[job] == '1'
    if recorded and here then
      append_fact(call.ms, typ, key, '', (here_now(typ, key, data)))
    elseif recorded then
      leave_fact(typ, key, int(call.ms), data)
    end
  end
  leave_ended()
  save_facts()
end
return finish_jobs(11, tell)
