-- Returns holds that are due, and tells what else is to be done in a partition.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 orders (zset),
--       6 out (hash), then, if something is told, a key that never exists
-- ARGV: 1 run (see run_id), 2 most due holds to return, 3 what is told (see tell_of)
-- RETURNS: {1 done, holds returned, now in ms, orders not on record, when the oldest
--          was sold in ms, version, recorded, spread, ends, transfers on their
--          way, 1 something was oversold, starts, hold, ms to the next due hold or -1,
--          when it was read back, and when compared last, in ms or 0, facts that were left and not moved,
--          1 some sku has a low_at, 1 the sale is over and a hold lives},
--          {4, 5, 6 as unusable, facts that were left and not moved}
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
-- @include lua/part_told.lua
local ORDERS, OUT = KEYS[5], KEYS[6]
local run, bound = ARGV[1], tonumber(ARGV[2])
local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'recorded', 'spread', 'ends', 'owes', 'starts', 'hold',
  'opened', 'compared', 'lows')
local why = unusable(s[1], s[2], s[3], run)
local left = redis.call('XLEN', P .. 'facts:out') -- before any write, because a slot that moves may refuse it
if why then return { why, left } end
local now = now_ms()
tell_of(ARGV[3])
local n = return_due(now, bound)
save()
if s[7] and not owes then
  s[7] = string.find(table.concat(redis.call('HVALS', STOCK), '|') .. '|', ' [1-9]%d*|') -- bounded: at most 100 skus
  if not s[7] then redis.call('HDEL', SALE, 'owes') end
end
local due, held = next_due(now), nil
if due >= 0 and now >= tonumber(s[6]) then
  held = string.find('|' .. table.concat(redis.call('HVALS', STOCK), '|'), '|%d+ [1-9]') -- bounded: at most 100 skus
end
local oldest = redis.call('ZRANGE', ORDERS, 0, 0, 'WITHSCORES')
return { 1, n, now, redis.call('ZCARD', ORDERS), oldest[2] and tonumber(oldest[2]) or 0, s[1], s[4] or '0', s[5] or '0', tonumber(s[6]),
  redis.call('HLEN', OUT), s[7] and 1 or 0, tonumber(s[8]), tonumber(s[9]), due,
  tonumber(s[10] or 0), tonumber(s[11] or 0), left + told, (s[12] or '0') ~= '0' and 1 or 0, held and 1 or 0 }
