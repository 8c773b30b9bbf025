-- A numbered call of a session, or of a process that only enqueues: sent again it
-- changes nothing and answers the same. A call of a session also claims the next jobs.
-- KEYS: none
-- ARGV: 1 session or '', 2 series, 3 number, 4 number of the last answered call,
--       5 ms that the call is remembered, 6 lease in ms, 7 most jobs to claim,
--       8 most bytes to claim, 9 m for the next jobs, or the letter of the only stream
--       to claim from, 10 entries to reclaim from blocking reads, which follow
-- RETURNS: {status, 1 the session is alive or 0, Redis time in us, entries waiting,
--          1 a delayed job may be due or 0, answer, bytes that the shard's parked
--          jobs take or -1 when it changed nothing there, then per claimed job: place,
--          text or its number in the call, its guard's value or ''}
--          Statuses: 1 done, 2 nothing was done because Redis lost an answered
--          call, 3 nothing was done because a later call was
-- TAKES: P, MAIN, READY, OWNERS, STREAM, WAKE, now_us, int, text_at, disown
-- GIVES: begin_call, known, finish_call
local FIRST = 16 -- entries of the first reading; it tells how large they are
local OTHERS = 64 -- readings that bring no job

-- new_claim is what one call claims: at most `budget` bytes. stored are the entries that
-- the call itself made, by their places: two streams may have entries of one id.
local function new_claim(session, budget)
  return { session = session, budget = budget, stored = {}, given = {}, places = {}, bytes = 0, due = 0 }
end

-- take adds an entry to the answer: its place, its text or, when this call itself
-- stored it, its number in the call, and what is stored under its guard.
local function take(c, letter, eid, text)
  c.bytes = c.bytes + #text
  if text == WAKE then
    c.due = 1
    return disown(letter, eid)
  end
  local kind, guard, place = string.byte(text, 1, 1), '', letter .. eid
  if kind == 70 or kind == 71 then -- F, G
    local name = string.match(text, '^.' .. string.rep('[^\31]*\31', 5) .. '([^\31]*)\31')
    if name ~= '' then guard = redis.call('GET', P .. 'guard:' .. name) or '' end
  end
  local given, n = c.given, #c.given
  given[n + 1], given[n + 2], given[n + 3] = place, c.stored[place] or text, guard
  c.places[#c.places + 1] = place
end

-- read claims at most `most` jobs of a stream and returns how many they were, and
-- whether there may be more. Entries that are no job do not count.
local function read(c, letter, most)
  local before, seen = #c.places, 0
  for _ = 1, most + OTHERS do
    local left = most - (#c.places - before)
    if left <= 0 or c.bytes >= c.budget then return #c.places - before, true end
    local n = math.min(left, FIRST)
    if seen > 0 then n = math.max(1, math.min(left, math.floor((c.budget - c.bytes) * seen / (c.bytes + 1)))) end
    local found = redis.call('XREADGROUP', 'GROUP', 'g', c.session, 'COUNT', n, 'STREAMS', STREAM[letter], '>')
    local entries = found and found[1] and found[1][2] or {}
    for _, one in ipairs(entries) do take(c, letter, one[1], one[2][2]) end
    seen = seen + #entries
    if #entries < n then return #c.places - before, false end
  end
  return #c.places - before, true
end

-- reclaim claims an entry that a blocking read was given, unless others had it put
-- back since.
local function reclaim(c, place)
  local letter, eid = string.sub(place, 1, 1), string.sub(place, 2)
  if redis.call('XCLAIM', STREAM[letter], 'g', c.session, 0, eid, 'JUSTID')[1] then
    local text = text_at(STREAM[letter], eid)
    if text then take(c, letter, eid, text) end
  end
end

-- claim takes from what came back and from what is new in turns, so that neither
-- starves the other. With room for one, `odd` (1 or 0, by the clock) says whose turn it is.
local function claim(c, most, odd)
  local turn = most > 1 and math.ceil(most / 2) or odd
  local n, more = 0, redis.call('XLEN', READY) > 0
  if more and turn > 0 then n, more = read(c, 'r', turn) end
  local left = most - n
  if left > 0 then left = left - read(c, 'm', left) end
  if more and left > 0 then read(c, 'r', left) end
end

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
    if ARGV[9] ~= 'm' then
      read(c, ARGV[9], most)
    elseif most > 0 then
      claim(c, most, call.us % 2)
    end
    if c.places[1] and not call.renewed then redis.call('ZADD', OWNERS, 'XX', int(call.ms + call.lease), call.session) end
  end
  redis.call('SET', call.memo, int(call.number) .. ' ' .. table.concat(c.places, ' ') .. '|' .. text, 'PX', ARGV[5])
  return answer(call, 1, alive, text)
end
