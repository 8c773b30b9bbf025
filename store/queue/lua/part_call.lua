-- A numbered call of a life, or of a process that only enqueues: sent again it
-- changes nothing and answers the same.
-- KEYS: none
-- ARGV: 1 life or '', 2 series, 3 number, 4 number of the last answered call,
--       5 ms that the call is remembered, 6 lease in ms, 7 most jobs to claim,
--       8 most bytes to claim, 9 m for the next jobs or a for one that must run
--       alone, 10 entries to adopt, which follow
-- RETURNS: {status, 1 the life is alive or 0, Redis time in us, entries waiting,
--          1 a delayed job may be due or 0, answer, bytes that the shard's parked
--          jobs take or -1 when it changed nothing there, then per claimed job: place,
--          text or its number in the call, its guard's value or ''}
--          Statuses: 1 done, 2 nothing was done because Redis lost an answered
--          call, 3 nothing was done because a later call was
local LIFE, MEMO, NUMBER, MEMO_TTL = ARGV[1], P .. 'memo:' .. ARGV[2], tonumber(ARGV[3]), ARGV[5]
local lease, most, budget = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local ADOPT, ARGS = tonumber(ARGV[10]), 11 + tonumber(ARGV[10])
local us = now_us()
local ms = math.floor(us / 1000)
local renewed = false -- the life's lease was, by the including script

local function answer(status, alive, text)
  local out = { status, alive and 1 or 0, int(us), redis.call('XLEN', MAIN) + redis.call('XLEN', READY), due, text, parked_bytes }
  for i = 1, #given do out[i + 7] = given[i] end
  return out
end

-- known answers a call that is not to be done, also to a life that is not alive: nil when
-- it is.
local function known(alive)
  local memo = redis.call('GET', MEMO)
  local seen = memo and tonumber(string.match(memo, '^%d+')) or 0
  if seen == NUMBER then
    local list, text = string.match(memo, '^%d+ ([^|]*)|(.*)$')
    for place in string.gmatch(list, '%S+') do
      local letter, eid = string.sub(place, 1, 1), string.sub(place, 2)
      local job = text_at(STREAM[letter], eid)
      if job then take(letter, eid, job) end
    end
    return answer(1, alive, text)
  end
  if seen > NUMBER then return answer(3, false, '') end
  if seen < tonumber(ARGV[4]) then return answer(2, alive, '') end
end

-- finish_call claims what is to be claimed, which renews the lease, and remembers the call. stored are the
-- entries that the call itself made, by their places: two streams may have entries
-- of one id.
local function finish_call(alive, text, stored)
  if alive then
    for i = 11, 10 + ADOPT do adopt(LIFE, ARGV[i]) end
    if ARGV[9] == 'a' then
      read(LIFE, 'a', 1, budget, stored)
    elseif most > 0 then
      claim(LIFE, most, us % 2, budget, stored)
    end
    if places[1] and not renewed then redis.call('ZADD', OWNERS, 'XX', int(ms + lease), LIFE) end
  end
  redis.call('SET', MEMO, int(NUMBER) .. ' ' .. table.concat(places, ' ') .. '|' .. text, 'PX', MEMO_TTL)
  return answer(1, alive, text)
end
