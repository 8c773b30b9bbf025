-- Describes queues.
-- KEYS: 1 begins the keys of the group, 2 a key that never exists
-- ARGV: 1 a queue, '' for all of the group
-- RETURNS: of each queue: {name, 1 it is paused or 0, jobs that may be claimed, blocked, scheduled, held, age of the first that may be
--          claimed in ms, done, retries, ended leases and dead jobs so far, dead letters}
-- @include lua/clock.lua
-- @include lua/part_queue.lua
local ms = math.floor(now_us() / 1000)

-- age_of_first is how long the first job that may be claimed has been in the queue, by its run_at if it had one.
local function age_of_first(q)
  local kind = redis.call('ZRANGE', q.k .. 'types', 0, 0)[1]
  local id = kind and redis.call('ZRANGE', q.k .. 'r:' .. kind, 0, 0)[1]
  local text = id and redis.call('HGET', q.k .. 'jobs', id)
  return text and math.max(0, ms - parse(text).from) or 0
end

local names, out = { ARGV[1] }, {}
if ARGV[1] == '' then names = redis.call('ZRANGE', QUEUES, 0, -1) end -- bounded: there are 1,000 queues
for _, name in ipairs(names) do
  local q = queue_of(name)
  if q.used then
    local held, due = redis.call('HLEN', q.k .. 'held'), redis.call('ZCARD', q.k .. 'due')
    local depth = redis.call('HLEN', q.k .. 'jobs') - due - q.blocked
    out[#out + 1] = { name, q.paused, depth, q.blocked, due - held, held, age_of_first(q), q.done, q.retries, q.recovered, q.dead,
      redis.call('ZCARD', P .. 'deadof:' .. name) }
  end
end
return out
