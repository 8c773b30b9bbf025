-- A numbered call of a session, or of a process that only enqueues: sent again it
-- changes nothing and answers the same.
-- KEYS: none
-- ARGV: 1 session or '', 2 series, 3 number, 4 number of the last answered call,
--       5 ms that the call is remembered, 6 lease in ms, 7 most jobs to claim,
--       8 most bytes to claim, 9 m for the next jobs or a for one that must run
--       alone, 10 entries to reclaim from blocking reads, which follow
-- RETURNS: {status, 1 the session is alive or 0, Redis time in us, entries waiting,
--          1 a delayed job may be due or 0, answer, bytes that the shard's parked
--          jobs take or -1 when it changed nothing there, then per claimed job: place,
--          text or its number in the call, its guard's value or ''}
--          Statuses: 1 done, 2 nothing was done because Redis lost an answered
--          call, 3 nothing was done because a later call was
-- TAKES: P, MAIN, READY, OWNERS, STREAM, now_us, int, text_at, new_claim, take, reclaim,
--        read, claim
-- GIVES: begin_call, known, finish_call

-- begin_call reads the common arguments; those of the script itself begin after call.args.
local function begin_call()
  local us = now_us()
  return { us = us, ms = math.floor(us / 1000), session = ARGV[1], memo = P .. 'memo:' .. ARGV[2], number = tonumber(ARGV[3]),
    lease = tonumber(ARGV[6]), args = 10 + tonumber(ARGV[10]), claim = new_claim(ARGV[1], tonumber(ARGV[8])), parked = -1 }
end

local function answer(call, status, alive, text)
  local c = call.claim
  local out = { status, alive and 1 or 0, int(call.us), redis.call('XLEN', MAIN) + redis.call('XLEN', READY), c.due, text, call.parked }
  for i = 1, #c.given do out[i + 7] = c.given[i] end
  return out
end

-- known returns the answer for a call that must not run again, also to a session that is
-- not alive, and nil for a call that must run.
local function known(call, alive)
  local memo = redis.call('GET', call.memo)
  local seen = memo and tonumber(string.match(memo, '^%d+')) or 0
  if seen == call.number then
    local list, text = string.match(memo, '^%d+ ([^|]*)|(.*)$')
    for place in string.gmatch(list, '%S+') do
      local letter, eid = string.sub(place, 1, 1), string.sub(place, 2)
      local job = text_at(STREAM[letter], eid)
      if job then take(call.claim, letter, eid, job) end
    end
    return answer(call, 1, alive, text)
  end
  if seen > call.number then return answer(call, 3, false, '') end
  if seen < tonumber(ARGV[4]) then return answer(call, 2, alive, '') end
end

-- finish_call claims what is to be claimed, which renews the lease, and remembers the call.
local function finish_call(call, alive, text)
  local c, most = call.claim, tonumber(ARGV[7])
  if alive then
    for i = 11, call.args do reclaim(c, ARGV[i]) end
    if ARGV[9] == 'a' then
      read(c, 'a', 1)
    elseif most > 0 then
      claim(c, most, call.us % 2)
    end
    if c.places[1] and not call.renewed then redis.call('ZADD', OWNERS, 'XX', int(call.ms + call.lease), call.session) end
  end
  redis.call('SET', call.memo, int(call.number) .. ' ' .. table.concat(c.places, ' ') .. '|' .. text, 'PX', ARGV[5])
  return answer(call, 1, alive, text)
end
