-- Closes a partition of a sale that is to be deleted, unless the sale sells now, a hold lives in the
-- partition, or one of its confirmations is not on record. Nothing changes in a closed partition
-- until it is removed or opened again. Run again by the same deletion it answers the same.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 orders (zset), then a key that never exists
-- ARGV: 1 run (see run_id), 2 the deletion, 3 1 for the first partition, which alone looks at the
--       condition and the window, 4 condition (see matches), 5 when somebody reserved last in
--       any partition in ms, 6 most due holds to return, 7 what is told (see tell_of)
-- RETURNS: {1 closed, the load that it comes from, 1 if a reservation was made in it, or may
--          have been before Redis lost it}, {4, 5, 6 as unusable}, {7 the condition does not
--          hold}, {8 the sale sells}, {9 a hold lives, or a confirmation is not on record},
--          {13 more holds are due: call again}
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
-- @include lua/part_told.lua
-- @include lua/match.lua
local ORDERS = KEYS[5]
tell_of(ARGV[7])
local run, deletion, is_first, condition, used, bound = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])

local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'starts', 'ends', 'idle', 'used', 'loading', 'opened', 'erased')
local now, starts, ends, idle = now_ms(), tonumber(s[4] or 0), tonumber(s[5] or 0), tonumber(s[6] or 0)
if s[2] ~= deletion then
  local why = unusable(s[1], s[2], s[3], run)
  if why then return { why } end
  if is_first and not matches(condition, s[1]) then return { 7 } end
  local quiet = idle > 0 and now >= math.max(starts, used, tonumber(s[7] or 0)) + idle
  if is_first and now >= starts and now < ends and not quiet then return { 8 } end
  local more = return_due(now, bound) == bound
  save()
  if more then return { 13 } end
  local numbers = '|' .. table.concat(redis.call('HVALS', STOCK), '|') -- bounded: at most 100 skus
  if string.find(numbers, '|%d+ [1-9]') or redis.call('ZCARD', ORDERS) > 0 then return { 9 } end
  redis.call('HSET', SALE, 'closed', deletion)
end
local lost = s[9] and (s[1] ~= '1' or now >= starts) -- a load brings back only what was sold
return { 1, s[8] or '', (lost or s[10] or redis.call('HLEN', RESERVATIONS) > 0) and 1 or 0 }
