-- A regular look at a shard, in bounded steps: renews the session that looks, lets
-- delayed jobs start, puts back what ended sessions and blocking reads left, drops old
-- dead letters, and drops parts of time that no report is listed under
-- any more.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 session, 2 lease in ms, 3 1 it holds jobs or 0, 4 retention of tombstones in
--       ms, 5 of groups, 6 of reports, 7 most leases that a job may lose, 8 lifetime
--       of dead letters in ms, 9 most dead letters, 10 ms that the shard counts as
--       served from now on, 11 1 look for consumers without a session too,
--       12 and 13 its series, 14 ms that they are remembered, 15 what is told of jobs that end (part_facts.lua)
-- RETURNS: {1 the session is alive or 0, ms till something is due or -1, 1 there is
--          more to do now, sessions that
--          were ended, jobs whose lease was lost, the letter of a stream whose jobs
--          wait to run without others or '', entries that wait for a claim, some names under which jobs
--          are parked, others each time, bytes that parked jobs take}
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_text.lua
-- @include lua/part_stream.lua
-- @include lua/part_admit.lua
-- @include lua/part_due.lua
-- @include lua/part_write.lua
-- @include lua/part_tombstone.lua
-- @include lua/part_group.lua
-- @include lua/part_report.lua
-- @include lua/part_reported.lua
-- @include lua/part_end.lua
-- @include lua/fact_leave.lua
-- @include lua/part_facts.lua
-- @include lua/part_dead.lua
-- @include lua/part_session.lua
-- @include lua/part_back.lua
local session, lease = ARGV[1], tonumber(ARGV[2])
local dead_ttl, dead_max = tonumber(ARGV[8]), tonumber(ARGV[9])
local o = { retention = tonumber(ARGV[4]), most = tonumber(ARGV[7]) }
local STEP, UNCLAIMED, NAMES, SESSIONS = 100, 500, 16, 16
local us = now_us()
local ms = math.floor(us / 1000)
local wake, more = -1, 0
tell_of(ARGV[15])

local function wake_in(n)
  n = math.max(n, 0)
  if wake < 0 or n < wake then wake = n end
end

local function promote()
  local due = take_due(ms, STEP)
  for _, e in ipairs(due) do admit(e, front(e), ms) end
  if #due == STEP then more = 1 end
end

-- A session ends in two steps: it is no owner any more, so that none of its results
-- counts from then on; then what it held goes back, look by look.
local function end_sessions()
  local ended = redis.call('ZRANGEBYSCORE', OWNERS, '-inf', int(ms), 'LIMIT', 0, SESSIONS)
  for _, one in ipairs(ended) do
    redis.call('ZREM', OWNERS, one)
    redis.call('ZADD', GONE, 1, one)
  end
  return #ended
end

local function empty_gone()
  local left, back, gone = STEP, 0, redis.call('ZRANGE', GONE, 0, SESSIONS - 1, 'WITHSCORES')
  for i = 1, #gone, 2 do
    local n, all = empty_session(gone[i], gone[i + 1] ~= '0', left, o)
    left = left - n
    if gone[i + 1] ~= '0' then back = back + n end
    if not all then more = 1 end
  end
  if #gone == 2 * SESSIONS then more = 1 end
  return back
end

-- A consumer with jobs and without a session is left when Redis forgot the session.
local function find_orphans()
  for _, letter in ipairs(LETTERS) do
    for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', STREAM[letter], 'g')) do
      local name = info[2]
      if name ~= READER and not redis.call('ZSCORE', OWNERS, name) then redis.call('ZADD', GONE, 'NX', 1, name) end
    end
  end
end

local function undelivered(stream)
  return redis.call('XLEN', stream) - redis.call('XPENDING', stream, 'g')[1]
end

local alive = renew(session, ms, lease * ((ARGV[3] == '1' or holds(session)) and 1 or IDLE))
for i = 12, 13 do redis.call('PEXPIRE', P .. 'memo:' .. ARGV[i], ARGV[14]) end
local ended = end_sessions()
if ARGV[11] == '1' then find_orphans() end
local back = empty_gone()
local unclaimed = put_back_unclaimed(UNCLAIMED, STEP, o)
if unclaimed > 0 then wake_in(UNCLAIMED / 2) end
promote()
if trim_dead(ms, dead_ttl, dead_max, STEP) then more = 1 end
if trim_parts(1000) then more = 1 end
leave_ended()
save(tonumber(ARGV[5]), tonumber(ARGV[6]))
if back > 0 then redis.call('HINCRBY', STATS, 'recovered', back) end
redis.call('SET', P .. 'served', '1', 'PX', ARGV[10])
local isolated = undelivered(STREAM.f) > 0 and 'f' or undelivered(STREAM.a) > 0 and 'a' or ''
local due = next_due(ms)
if due >= 0 then wake_in(due) end
for _, one in ipairs(redis.call('ZRANGE', OWNERS, 0, 1, 'WITHSCORES')) do
  local till = tonumber(one)
  if till and till > ms then wake_in(till - ms + 1) end
end
return { alive and 1 or 0, math.ceil(wake), more, ended, back, isolated, undelivered(MAIN) + undelivered(READY) + unclaimed,
  redis.call('HRANDFIELD', P .. 'parkedn', NAMES), tonumber(redis.call('HGET', STATS, 'parkedb') or 0) }
