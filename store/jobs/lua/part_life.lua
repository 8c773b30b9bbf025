-- How jobs go on and end.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, int, parse, push, ms
-- GIVES: admit, later, yield, remember, finish, bury, ended_as, forget_letters
local LETTER_AGE, LETTERS = 7 * 86400000, 10000 -- of a queue's dead letters
local ENDED = 1000 -- jobs that have ended in one hash; the hashes of the last 11,000 stay

-- admit lets a job be claimed, or wait behind another one of its conflict key.
local function admit(q, id, e)
  if e.key ~= '' then
    local head = redis.call('HGET', q.k .. 'heads', e.key)
    if head and head ~= id then
      redis.call('ZADD', q.k .. 'wait/' .. e.key, int(e.seq), id)
      q.blocked = q.blocked + 1
      return
    end
    redis.call('HSET', q.k .. 'heads', e.key, id)
  end
  push(q, e.kind, { int(e.seq), id })
end

-- yield ends a job's hold on its conflict key and lets the next one be claimed.
local function yield(q, id, e)
  if e.key == '' or redis.call('HGET', q.k .. 'heads', e.key) ~= id then return end
  local next = redis.call('ZPOPMIN', q.k .. 'wait/' .. e.key)[1]
  if not next then return redis.call('HDEL', q.k .. 'heads', e.key) end
  q.blocked = q.blocked - 1
  redis.call('HSET', q.k .. 'heads', e.key, next)
  local other = parse(redis.call('HGET', q.k .. 'jobs', next))
  push(q, other.kind, { int(other.seq), next })
end

-- later lets a job wait for a time.
local function later(q, id, due)
  redis.call('ZADD', q.k .. 'due', int(due), id)
  q.delayed[id] = true
end

local function ended_key(q, n)
  return q.k .. 'e/' .. int(math.floor(n / ENDED))
end

-- remember notes that a job has ended: D it is done, C cancelled, X dead.
local function remember(q, id, how)
  q.ended = q.ended + 1
  if not q.list or q.ended % ENDED == 0 then
    local key = ended_key(q, q.ended)
    if q.ended % ENDED == 0 then redis.call('DEL', ended_key(q, q.ended - 11 * ENDED)) end
    q.over[key] = q.over[key] or {}
    q.list = q.over[key]
  end
  local n = #q.list
  q.list[n + 1], q.list[n + 2] = id, how
end

-- ended_as gives the letter and the fence of a job that has ended, as far as it is remembered.
local function ended_as(q, id)
  for n = 0, 10 do
    local key = ended_key(q, q.ended - n * ENDED)
    local list = q.over[key] or {} -- not written yet; the last end of a job counts
    for i = #list - 1, 1, -2 do
      if list[i] == id then return string.sub(list[i + 1], 1, 1), string.sub(list[i + 1], 2) end
    end
    local text = redis.call('HGET', key, id)
    if text then return string.sub(text, 1, 1), string.sub(text, 2) end
  end
end

-- finish leaves nothing of a job but the note of its end. Without e it has neither key nor unique name.
local function finish(q, id, letter, fence, e)
  redis.call('HDEL', q.k .. 'jobs', id)
  redis.call('HDEL', q.k .. 'hist', id)
  redis.call('HDEL', q.k .. 'lost', id)
  remember(q, id, letter .. fence)
  if not e then return end
  if e.unique ~= '' and redis.call('HGET', q.k .. 'unique', e.unique) == id then redis.call('HDEL', q.k .. 'unique', e.unique) end
  yield(q, id, e)
end

-- forget_letters drops dead letters of a queue that are too old or too many.
local function forget_letters(q, most)
  local key = P .. 'deadof:' .. q.name
  local over = redis.call('ZCARD', key) - LETTERS
  local old = redis.call('ZRANGEBYSCORE', key, '-inf', int(ms - LETTER_AGE), 'LIMIT', 0, most)
  if over > #old then old = redis.call('ZRANGE', key, 0, math.min(over, most) - 1) end
  for _, eid in ipairs(old) do
    local letter = redis.call('XRANGE', P .. 'dead', eid, eid, 'COUNT', 1)[1]
    local id = letter and letter[2][2]
    if id and redis.call('HGET', P .. 'deadids', id) == eid then redis.call('HDEL', P .. 'deadids', id) end
    redis.call('XDEL', P .. 'dead', eid)
    redis.call('ZREM', key, eid)
  end
  return #old
end

-- bury makes a dead letter of a job, in the form that fanfare's own queues have. The field w,
-- a guard there, has the most attempts of the job.
local function bury(q, id, e, reason, h, fence)
  finish(q, id, 'X', reason == 'lost_leases' and '0' or fence, e) -- no result of the last holder made it dead
  q.dead = q.dead + 1
  local whole = q.name .. '.' .. id
  local eid = redis.call('XADD', P .. 'dead', '*', 'i', whole, 't', e.kind, 'k', e.key, 'u', e.unique, 'g', '', 'w', int(e.most), 's', e.born, 'a', '',
    'p', e.payload, 'reason', reason, 'err', h.err, 'label', 'job', 'attempts', int(h.failures), 'fence', fence, 'report', '',
    'class', e.kind .. '\31' .. q.name)
  redis.call('HSET', P .. 'deadids', whole, eid)
  redis.call('ZADD', P .. 'deadof:' .. q.name, int(ms), eid)
  forget_letters(q, 10)
  return eid
end
