-- Lets delayed jobs start, brings back what dead processes left, drops old dead
-- letters, all in bounded steps.
-- KEYS: 1 the shard's live records
-- ARGV: 1 retention of marks in ms, 2 retention of groups in ms, 3 most lost
--       leases, 4 lifetime of dead letters in ms, 5 most dead letters, 6 ms that
--       the shard counts as served from now on, where to go on in the
--       pending lists ('-': at the start): 7 of main, 8 of ready, 9 of alone
-- RETURNS: {1, ms till something is due or -1, 1 there is more to do now,
--          leases recovered, jobs that must run alone, where to go on: 3,
--          entries that nobody was given, or began, some names under which jobs
--          are parked, others each time}
-- @include lua/record.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
-- @include lua/part_bucket.lua
-- @include lua/part_group.lua
-- @include lua/part_end.lua
local retention, group_ttl, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local dead_ttl, dead_max = tonumber(ARGV[4]), tonumber(ARGV[5])
local STEP, UNBEGUN, NAMES = 100, 500, 16
local us = now_us()
local ms = math.floor(us / 1000)
local wake, more, recovered, unbegun = -1, 0, 0, 0

local function wake_in(n)
  n = math.max(n, 0)
  if wake < 0 or n < wake then wake = n end
end

local function promote()
  local ids = redis.call('ZRANGEBYSCORE', LATER, '-inf', int(ms), 'LIMIT', 0, STEP)
  for _, id in ipairs(ids) do
    redis.call('ZREM', LATER, id)
    local e, r = take_body(id), record_of(id)
    if e and r then admit(e, r, front(r)) end
  end
  if #ids == STEP then more = 1 end
end

-- A lease that ended, or an entry that was delivered and not begun for a while.
local function recover(letter, eid, idle)
  local e = entry_at(STREAM[letter], eid)
  local r = e and e.i ~= '' and record_of(e.i)
  if r and r.state ~= 'Q' and r.till > ms then return wake_in(r.till - ms + 1) end
  if r and r.state == 'Q' then
    unbegun = unbegun + 1
    if idle < UNBEGUN then return wake_in(UNBEGUN - idle) end
  end
  redis.call('XACK', STREAM[letter], 'g', eid)
  redis.call('XDEL', STREAM[letter], eid)
  if not r then return end
  if r.state == 'Z' then return close(e, 'C', 'cancelled', retention) end
  if r.state == 'R' then
    r.lost, recovered = r.lost + 1, recovered + 1
    if r.lost >= most then
      return bury(e, r, { reason = 'lease_lost', err = 'its lease ended ' .. int(r.lost) .. ' times', label = 'failed' }, retention)
    end
  end
  put_stream(e, r, front(r))
end

local function after(eid)
  local a, b = string.match(eid, '^(%d+)%-(%d+)$')
  return a .. '-' .. int(tonumber(b) + 1)
end

local function sweep(letter, from)
  local pending = redis.call('XPENDING', STREAM[letter], 'g', from, '+', STEP)
  for _, p in ipairs(pending) do recover(letter, p[1], tonumber(p[3])) end
  if #pending < STEP then return '-' end
  more = 1
  return after(pending[STEP][1])
end

local function trim_dead()
  local over, gone = redis.call('XLEN', DEAD) - dead_max, 0
  for _, one in ipairs(redis.call('XRANGE', DEAD, '-', '+', 'COUNT', over > 0 and STEP or 2)) do
    local born = tonumber(string.match(one[1], '^%d+'))
    if gone >= over and ms - born < dead_ttl then break end
    local e = entry_of(one[2])
    forget_dead(one[1], e)
    if e.a ~= '' then redis.call('DEL', P .. 'attach:' .. e.i) end
    gone = gone + 1
  end
  if gone > 1 then more = 1 end
  if gone > 0 then redis.call('HINCRBY', STATS, 'dropped', gone) end
end

-- Types that were paused and no longer are: their parked jobs come back.
local function resume()
  local t = redis.call('SRANDMEMBER', P .. 'resuming')
  if not t then return end
  local name = 'type:' .. t
  local found = redis.call('XRANGE', P .. 'parked:' .. name, '-', '+', 'COUNT', STEP)
  for _, one in ipairs(found) do
    local e = unpark(name, one[1])
    local r = e and record_of(e.i)
    if r then admit(e, r, front(r)) end
  end
  if #found < STEP then redis.call('SREM', P .. 'resuming', t) end
  more = 1
end

promote()
resume()
local at_m, at_r, at_a = sweep('m', ARGV[7]), sweep('r', ARGV[8]), sweep('a', ARGV[9])
trim_dead()
save(group_ttl)
if recovered > 0 then redis.call('HINCRBY', STATS, 'recovered', recovered) end
redis.call('SET', P .. 'served', '1', 'PX', ARGV[6])
local due = next_due(ms)
if due >= 0 then wake_in(due) end
local function given(stream)
  return redis.call('XPENDING', stream, 'g')[1]
end
local waiting = redis.call('XLEN', MAIN) + redis.call('XLEN', READY) - given(MAIN) - given(READY) + unbegun
return { 1, wake, more, recovered, redis.call('XLEN', ALONE), at_m, at_r, at_a, waiting, redis.call('HRANDFIELD', P .. 'parkedn', NAMES) }
