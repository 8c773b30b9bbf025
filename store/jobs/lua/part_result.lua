-- The call with which workers answer for the jobs that they hold. The script has CALLS before it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: CALLS, queue_of, parse, history_of, remember, finish, ended_as, held_by, has, OUTCOMES
-- complete ends jobs that are done: ids and holds.
local function complete(q, ids, holds)
  for from = 1, #ids, 1000 do
    redis.call('HDEL', q.k .. 'held', unpack(ids, from, math.min(from + 999, #ids)))
    redis.call('ZREM', q.k .. 'due', unpack(ids, from, math.min(from + 999, #ids)))
  end
  local plain = {}
  for i, id in ipairs(ids) do
    q.done = q.done + 1
    if has(holds[i], 'p') and not has(holds[i], 'h') then
      plain[#plain + 1] = id
      remember(q, id, 'D', holds[i].fence)
    else
      finish(q, id, 'D', holds[i].fence, parse(redis.call('HGET', q.k .. 'jobs', id)))
    end
  end
  if plain[1] then redis.call('HDEL', q.k .. 'jobs', unpack(plain)) end
end

-- again tells what is said to a result of a hold that has ended: ok if it was recorded before.
local function again(q, id, r)
  local letter, fence = ended_as(q, id)
  if letter and fence == r.token then
    if letter == 'D' and r.what == 'complete' or letter == 'X' and r.what == 'fail' then return '1' end
    if letter == 'C' then return '3' end
  end
  local past = redis.call('HGET', q.k .. 'hist', id)
  return past and r.what == 'fail' and history_of(past).fence == r.token and '1' or '2'
end

-- Results are recorded: queue, then of each seven: id, token, outcome, error, ms to wait at least, random number below
-- 1, lease in ms or ''. Answers of each 1 ok, with the lease if it was renewed, 2 lost, 3 cancelled; a blank between them.
function CALLS.results(a)
  local q, answers, ids, list, holds = queue_of(a[1]), {}, {}, {}, {}
  for i = 2, #a, 7 do ids[#ids + 1] = a[i] end
  local held = redis.call('HMGET', q.k .. 'held', unpack(ids))
  local seen, done = {}, {}
  for i = 2, #a, 7 do
    local n = (i - 2) / 7 + 1
    local r = { token = a[i + 1], what = a[i + 2], err = a[i + 3], after = tonumber(a[i + 4]), jitter = tonumber(a[i + 5]), lease = a[i + 6] }
    local text = held[n]
    if seen[a[i]] then text = not done[a[i]] and redis.call('HGET', q.k .. 'held', a[i]) end
    local h = held_by(text)
    seen[a[i]] = true
    if not h or h.fence ~= r.token then
      answers[n] = done[a[i]] == r.token and r.what == 'complete' and '1' or again(q, a[i], r)
    elseif r.what == 'complete' then
      list[#list + 1], holds[#holds + 1], answers[n], done[a[i]] = a[i], h, '1', r.token
    else
      answers[n] = OUTCOMES[r.what](q, a[i], h, r)
    end
  end
  complete(q, list, holds)
  return '1,' .. table.concat(answers, ' ')
end
