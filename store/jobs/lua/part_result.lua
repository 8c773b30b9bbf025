-- The calls with which workers answer for the jobs that they hold. The script has CALLS before it.
-- KEYS: none
-- ARGV: 1 and on: those of the run; those of a call begin at its place
-- RETURNS: nothing; it only defines functions
-- TAKES: CALLS, queue_of, parse, history_of, remember, finish, ended_as, held_by, has, free, regain, OUTCOMES
-- again tells what is said to a result of a hold that has ended: ok if it was recorded before.
local function again(q, id, token, what)
  local letter, fence = ended_as(q, id)
  if letter and fence == token then
    if letter == 'D' and what == 'complete' or letter == 'X' and what == 'fail' then return '1' end
    if letter == 'C' then return '3' end
  end
  local past = redis.call('HGET', q.k .. 'hist', id)
  return past and what == 'fail' and history_of(past).fence == token and '1' or '2'
end

function OUTCOMES.complete(q, id, h)
  free(q, id)
  q.done = q.done + 1
  finish(q, id, 'D', h.fence, not has(h, 'p') and parse(redis.call('HGET', q.k .. 'jobs', id)))
  return '1'
end

-- Different jobs are completed: queue, then of each its id and token. Answers as CALLS.results. Jobs that have neither
-- key nor unique name nor history end together.
function CALLS.complete(at, n)
  local q, answers, ids, plain = queue_of(ARGV[at]), {}, {}, {}
  for i = at + 1, at + n - 1, 2 do ids[#ids + 1] = ARGV[i] end
  local held = redis.call('HMGET', q.k .. 'held', unpack(ids))
  for i, id in ipairs(ids) do
    local token, text = ARGV[at + 2 * i], held[i]
    if text and string.sub(text, 1, #token + 3) == 'p:' .. token .. ' ' then
      plain[#plain + 1], answers[i] = id, '1'
      remember(q, id, 'D' .. token)
    else
      local h = text and held_by(text) or regain(q, id, token)
      answers[i] = h and h.fence == token and OUTCOMES.complete(q, id, h) or again(q, id, token, 'complete')
    end
  end
  if plain[1] then
    q.done = q.done + #plain
    redis.call('HDEL', q.k .. 'held', unpack(plain))
    redis.call('ZREM', q.k .. 'due', unpack(plain))
    redis.call('HDEL', q.k .. 'jobs', unpack(plain))
  end
  return '1,' .. table.concat(answers, ' ')
end

-- Results are recorded, one after the other: queue, then of each seven: id, token, outcome, error, ms to wait at least, random
-- number below 1, lease in ms or ''. Answers of each 1 ok, with the lease if it was renewed, 2 lost, 3 cancelled; a blank between
-- them.
function CALLS.results(at, n)
  local q, answers = queue_of(ARGV[at]), {}
  for i = at + 1, at + n - 1, 7 do
    local id, token, what = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    local h = held_by(redis.call('HGET', q.k .. 'held', id)) or regain(q, id, token)
    if h and h.fence == token then
      local r = { err = ARGV[i + 3], after = tonumber(ARGV[i + 4]), jitter = tonumber(ARGV[i + 5]), lease = ARGV[i + 6] }
      answers[#answers + 1] = OUTCOMES[what](q, id, h, r)
    else
      answers[#answers + 1] = again(q, id, token, what)
    end
  end
  return '1,' .. table.concat(answers, ' ')
end
