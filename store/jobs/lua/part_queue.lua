-- The queues of a group, and their keys. Every key has the prefix, and with it the hash tag, of KEYS[1].
-- KEYS: 1 begins the keys of the group, 2 a key that never exists: while a slot moves, a script with a key that is
--       missing is refused before it runs, instead of stopping midway
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: int
-- GIVES: P, NEVER, QUEUES, FIELDS, COUNTED, MINUTES, MOST, open, queue_of, parse, history_of, keep_history
local P, NEVER = string.sub(KEYS[1], 1, -5), KEYS[2]
local QUEUES = P .. 'queues' -- when each queue was used, in ms
local FIELDS = { 'seq', 'fence', 'blocked', 'paused', 'ended', 'done', 'retries', 'recovered', 'dead', 'minute' }
local COUNTED = { 'seq', 'done', 'retries', 'recovered', 'dead' } -- those that only rise, as minutes tell of them
local MINUTES = 60 -- minutes that are kept beside the present one
local MOST = 1000000 -- jobs of a queue that have not ended
local open = {}

-- queue_of gives what a queue has beside its jobs: the numbers in FIELDS, which part_save.lua writes.
local function queue_of(name)
  local q = open[name]
  if q then return q end
  q = { name = name, k = P .. 'w:' .. name .. '/', first = {}, dirty = {}, over = {}, delayed = {}, was = {} }
  local values = redis.call('HMGET', q.k .. 'meta', unpack(FIELDS))
  for i, field in ipairs(FIELDS) do
    q.was[field] = tonumber(values[i]) or 0
    q[field] = q.was[field]
  end
  q.used = tonumber(redis.call('ZSCORE', QUEUES, name))
  open[name] = q
  return q
end

-- parse reads the text of a job: p if it has neither conflict key nor unique name, else x; its number in the queue, when it was
-- enqueued, when its age begins or '', type, conflict key, unique name, most attempts, traceparent if it has one, and after a zero byte its payload.
-- Times are in ms.
local function parse(text)
  local seq, born, from, kind, key, unique, most, payload =
    string.match(text, '^%a(%d+)\31(%d+)\31(%d*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31(%d+)[^%z]*%z(.*)$')
  return { seq = tonumber(seq), born = born, from = tonumber(from ~= '' and from or born), kind = kind, key = key, unique = unique,
    most = tonumber(most), payload = payload }
end

-- history_of reads what a job has gone through: failures, ended leases, the fence of the last hold that failed or '', and
-- the last error.
local function history_of(text)
  if not text then return { failures = 0, lost = 0, fence = '', err = '' } end
  local failures, lost, fence, err = string.match(text, '^(%d+) (%d+) (%d*) (.*)$')
  return { failures = tonumber(failures), lost = tonumber(lost), fence = fence, err = err }
end

local function keep_history(q, id, h)
  redis.call('HSET', q.k .. 'hist', id, int(h.failures) .. ' ' .. int(h.lost) .. ' ' .. h.fence .. ' ' .. h.err)
end
