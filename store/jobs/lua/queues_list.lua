-- Describes queues.
-- KEYS: 1 begins the keys of the group, 2 a key that never exists
-- ARGV: 1 a queue, '' for all of the group, 2 how many marks of minutes to tell of at most
-- RETURNS: of each queue: {name, 1 it is paused or 0, jobs that may be claimed, blocked, scheduled, held, age of the first that may be
--          claimed in ms, dead letters, the present minute, enqueued, done, retries, ended leases and dead jobs so far, and a list of
--          the marks of its minutes from an hour ago on (part_save.lua)}
-- @include lua/clock.lua
-- @include lua/part_queue.lua
local ms = math.floor(now_us() / 1000)
local minute = math.floor(ms / 60000)
local STEP = 1000 -- overdue jobs of a queue that it tells from others

-- age_of_first is how long the first job that may be claimed has been in the queue, by its run_at if it had one.
local function age_of_first(q)
  local kind = redis.call('ZRANGE', q.k .. 'types', 0, 0)[1]
  local id = kind and redis.call('ZRANGE', q.k .. 'r/' .. kind, 0, 0)[1]
  local text = id and redis.call('HGET', q.k .. 'jobs', id)
  return text and math.max(0, ms - parse(text).from) or 0
end

-- overdue is how many jobs wait or are held although their time, or their lease, is over: the next claim sees to them. It returns also how many
-- of them are held, and for how long the first of them has been due.
local function overdue(q)
  local first = tonumber(redis.call('ZRANGE', q.k .. 'due', 0, 0, 'WITHSCORES')[2])
  if not first or first > ms then return 0, 0, 0 end
  local ids, held = redis.call('ZRANGEBYSCORE', q.k .. 'due', '-inf', int(ms), 'LIMIT', 0, STEP), 0
  for _, text in ipairs(redis.call('HMGET', q.k .. 'held', unpack(ids))) do held = held + (text and 1 or 0) end
  return #ids, held, ms - first
end

local names, out = { ARGV[1] }, {}
if ARGV[1] == '' then names = redis.call('ZRANGE', QUEUES, 0, -1) end -- bounded: there are 1,000 queues
for _, name in ipairs(names) do
  local q = queue_of(name)
  if q.used then
    local held, due = redis.call('HLEN', q.k .. 'held'), redis.call('ZCARD', q.k .. 'due')
    local over, over_held, age = overdue(q)
    local depth = redis.call('HLEN', q.k .. 'jobs') - due - q.blocked + over
    out[#out + 1] = { name, q.paused, depth, q.blocked, due - held - (over - over_held), held - over_held,
      math.max(age, age_of_first(q)), redis.call('ZCARD', P .. 'deadof:' .. name), minute, q.seq, q.done, q.retries, q.recovered, q.dead,
      redis.call('ZRANGEBYSCORE', q.k .. 'minutes', int(minute - MINUTES), '+inf', 'LIMIT', 0, ARGV[2]) }
  end
end
return out
