-- Forgets queues that nobody has used, and old dead letters.
-- KEYS: 1 begins the keys of the group, 2 a key that never exists
-- ARGV: 1 ms after which an empty queue is unused
-- RETURNS: 1 there may be more to do now, else 0
-- @include lua/clock.lua
-- @include lua/part_queue.lua
local ms = math.floor(now_us() / 1000)
-- @include lua/part_ready.lua
-- @include lua/part_life.lua
local STEP_LETTERS = 500
redis.call('DEL', NEVER) -- a script whose first write frees memory is not refused by a full Redis
local left = STEP_LETTERS
for _, name in ipairs(redis.call('ZRANGE', QUEUES, 0, -1)) do -- bounded: there are 1,000 queues
  local q = queue_of(name)
  if left > 0 then left = left - forget_letters(q, left) end
  local empty = redis.call('HLEN', q.k .. 'jobs') == 0 and redis.call('ZCARD', P .. 'deadof:' .. name) == 0
  if empty and q.paused == 0 and ms - q.used > tonumber(ARGV[1]) then
    redis.call('DEL', q.k .. 'meta', q.k .. 'minutes')
    redis.call('ZREM', QUEUES, name)
  end
end
return left == 0 and 1 or 0
