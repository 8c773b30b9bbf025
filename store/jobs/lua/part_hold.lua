-- Holds: which worker has a job, and until when.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: int, parse, history_of, keep_history, push, admit, finish, bury, us, ms, back
-- GIVES: hold, lease_end, held_by, has, save_hold, free, settle
local LOST = 8 -- leases that may end before a job is dead
local STEP_DUE = 100 -- jobs that one claim sees to because they are due

-- A hold as text: flags, fence, lease in ms, worker, and the name of the claim's idempotency record or ''. Flags: p the job has
-- neither key nor unique name, h it has a history, c it was cancelled, g its lease was extended because Redis had been away.
local function held_by(text)
  if not text then return nil end
  local flags, fence, lease, worker, record = string.match(text, '^(%a*):(%d+) (%d+) (%S+) (%S*)$')
  return { fence = fence, lease = lease, flags = flags, worker = worker, record = record }
end

local function has(h, flag)
  return string.find(h.flags, flag, 1, true) ~= nil
end

local function save_hold(q, id, h)
  redis.call('HSET', q.k .. 'held', id, h.flags .. ':' .. h.fence .. ' ' .. h.lease .. ' ' .. h.worker .. ' ' .. h.record)
end

-- lease_end is when a lease is over that begins now: never before its time, although ms is cut.
local function lease_end(lease)
  return ms + 1 + lease
end

-- hold gives jobs to a worker, all under one fence, which it returns, and their histories.
local function hold(q, ids, texts, lease, worker, record)
  q.fence = math.max(q.fence + 1, us)
  local fence, till = int(q.fence), int(lease_end(lease))
  local holds, ends, histories, rest = {}, {}, {}, ':' .. fence .. ' ' .. lease .. ' ' .. worker .. ' ' .. record
  if redis.call('EXISTS', q.k .. 'hist') == 1 then histories = redis.call('HMGET', q.k .. 'hist', unpack(ids)) end
  q.delayed = q.delayed or {}
  for i, id in ipairs(ids) do
    local flags = string.byte(texts[i], 1, 1) == 112 and 'p' or '' -- p
    if histories[i] then flags = flags .. 'h' end
    local n = 2 * i
    holds[n - 1], holds[n], ends[n - 1], ends[n] = id, flags .. rest, till, id
    q.delayed[id] = true
  end
  redis.call('HSET', q.k .. 'held', unpack(holds))
  redis.call('ZADD', q.k .. 'due', unpack(ends))
  return fence, histories
end

-- free ends a hold.
local function free(q, id)
  redis.call('HDEL', q.k .. 'held', id)
  redis.call('ZREM', q.k .. 'due', id)
end

-- lose ends a hold whose lease is over.
local function lose(q, id, h)
  free(q, id)
  q.recovered = q.recovered + 1
  local e = parse(redis.call('HGET', q.k .. 'jobs', id))
  if has(h, 'c') then return finish(q, id, 'C', h.fence, e) end
  local past = history_of(redis.call('HGET', q.k .. 'hist', id))
  past.lost = past.lost + 1
  if past.lost >= LOST then return bury(q, id, e, 'lost_leases', past, h.fence) end
  keep_history(q, id, past)
  push(q, e.kind, { int(e.seq), id })
end

-- settle sees to jobs that are due: those that waited for their time, and those whose lease is over. A lease that was
-- over before Redis was back from an absence (back, in ms, '' for none) lasts once more, because its worker could not say anything.
local function settle(q)
  local due = redis.call('ZRANGEBYSCORE', q.k .. 'due', '-inf', int(ms), 'WITHSCORES', 'LIMIT', 0, STEP_DUE)
  for i = 1, #due, 2 do
    local id, at = due[i], tonumber(due[i + 1])
    local h = held_by(redis.call('HGET', q.k .. 'held', id))
    local more = h and back and at <= back and not has(h, 'g') and back + h.lease
    if not h then
      redis.call('ZREM', q.k .. 'due', id)
      admit(q, id, parse(redis.call('HGET', q.k .. 'jobs', id)))
    elseif more and more > ms then
      redis.call('ZADD', q.k .. 'due', int(more), id)
      h.flags = h.flags .. 'g'
      save_hold(q, id, h)
    else
      lose(q, id, h)
    end
  end
end
