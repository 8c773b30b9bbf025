-- The changes of queues are written at the end of a script, and waiting workers are told.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: QUEUES, FIELDS, COUNTED, MINUTES, open, int, save_types, ms
-- GIVES: save_queues
local HOUR = 3600000

-- save_ended writes which jobs have ended.
local function save_ended(q)
  for key, list in pairs(q.over) do
    for from = 1, #list, 1000 do redis.call('HSET', key, unpack(list, from, math.min(from + 999, #list))) end
    redis.call('PEXPIRE', key, HOUR)
  end
end

-- mark_minute keeps what a queue had counted before this minute, at the first change of that in it. So a minute counted what
-- is between its mark and the next one, or the present numbers. Marks of later minutes are there if Redis' clock was set back.
local function mark_minute(q)
  local minute, totals, counted = math.floor(ms / 60000), '', false
  if minute == q.minute then return end
  for _, field in ipairs(COUNTED) do
    totals, counted = totals .. ' ' .. int(q.was[field]), counted or q[field] ~= q.was[field]
  end
  if not counted then return end
  local key, at = q.k .. 'minutes', int(minute)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', int(minute - MINUTES - 1))
  redis.call('ZREMRANGEBYSCORE', key, '(' .. at, '+inf')
  if redis.call('ZCOUNT', key, at, at) == 0 then redis.call('ZADD', key, at, at .. totals) end
  redis.call('PEXPIRE', key, 2 * HOUR)
  q.minute = minute
end

local function save_numbers(q)
  local list = {}
  for _, field in ipairs(FIELDS) do
    if q[field] ~= q.was[field] then list[#list + 1], list[#list + 2] = field, int(q[field]) end
  end
  if list[1] then redis.call('HSET', q.k .. 'meta', unpack(list)) end
end

-- sooner reports whether a job that began to wait is due before all others.
local function sooner(q)
  local first = next(q.delayed) and redis.call('ZRANGE', q.k .. 'due', 0, 0)[1]
  return first and q.delayed[first]
end

local function save_queues()
  for name, q in pairs(open) do
    save_types(q)
    save_ended(q)
    mark_minute(q)
    save_numbers(q)
    if q.use and (not q.used or ms - q.used > HOUR) then redis.call('ZADD', QUEUES, int(ms), name) end
    if (q.news and q.paused == 0) or sooner(q) then redis.pcall('PUBLISH', q.k .. 'wake', '') end
  end
end
