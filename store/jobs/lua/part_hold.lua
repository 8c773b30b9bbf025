-- Holds: which worker has a job, and until when.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, int, parse, history_of, keep_history, push, pull, finish, bury, us, ms
-- GIVES: hold, lease_end, held_by, has, save_hold, free, keep_record, lose, regain
local LOST = 8 -- leases that may end before a job is dead
local SHORT = 20000 -- ms: a waiting worker looks twice in that time anyway

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
  local told = tonumber(lease) < SHORT
  if redis.call('EXISTS', q.k .. 'lost') == 1 then redis.call('HDEL', q.k .. 'lost', unpack(ids)) end
  for i, id in ipairs(ids) do
    local flags = string.byte(texts[i], 1, 1) == 112 and 'p' or '' -- p
    if histories[i] then flags = flags .. 'h' end
    local n = 2 * i
    holds[n - 1], holds[n], ends[n - 1], ends[n] = id, flags .. rest, till, id
    if told then q.delayed[id] = true end
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

-- keep_record lets the idempotency record of a hold live as long as its lease.
local function keep_record(h, lease)
  local record = P .. 'once:' .. h.record
  if h.record ~= '' and redis.call('PTTL', record) < tonumber(lease) then redis.call('PEXPIRE', record, lease) end
end

-- lose ends a hold whose lease is over. Until somebody claims the job, its holder may regain it.
local function lose(q, id, text)
  local h, e = held_by(text), parse(redis.call('HGET', q.k .. 'jobs', id))
  free(q, id)
  q.recovered = q.recovered + 1
  if has(h, 'c') then return finish(q, id, 'C', h.fence, e) end
  local past = history_of(redis.call('HGET', q.k .. 'hist', id))
  past.lost = past.lost + 1
  if past.lost >= LOST then return bury(q, id, e, 'lost_leases', past, h.fence) end
  keep_history(q, id, past)
  redis.call('HSET', q.k .. 'lost', id, text)
  push(q, e.kind, { int(e.seq), id })
end

-- regain gives a job back to the last holder, whose lease is over, if nobody has claimed it since; else it returns nil. The
-- outcome that the holder reports sets when the job is due.
local function regain(q, id, token)
  local h = held_by(redis.call('HGET', q.k .. 'lost', id))
  if not h or h.fence ~= token then return nil end
  local e = parse(redis.call('HGET', q.k .. 'jobs', id))
  if not pull(q, e.kind, id) then return nil end
  redis.call('HDEL', q.k .. 'lost', id)
  local past = history_of(redis.call('HGET', q.k .. 'hist', id))
  past.lost = past.lost - 1
  keep_history(q, id, past)
  h.flags = string.gsub(h.flags, 'h', '') .. 'h'
  save_hold(q, id, h)
  return h
end
