-- Makes the stock of a closed sale add up to its totals: the first partition gets the units that
-- all partitions together lack, or gives those that they have too many, oversold if it has not
-- so many. It does nothing if another call did so since the caller read.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, then a key that never exists
-- ARGV: 1 balances as the caller saw them, 2 what is told (see tell_of), 3.. sku and missing units, which may
--       be negative, in turn
-- RETURNS: 1 done, 2 read again
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
-- @include lua/part_told.lua
local balances, told_of = ARGV[1], ARGV[2]
local first, step = 3, 2

local s = redis.call('HMGET', SALE, 'closed', 'balances')
if not s[1] or (s[2] or '0') ~= balances then return 2 end
if redis.call('HEXISTS', SALE, 'run_id') == 1 then tell_of(told_of) end -- see order_restore.lua
for i = first, #ARGV - 1, step do stock_of(ARGV[i]) end
local low = low_skus()
for i = first, #ARGV - 1, step do
  local t, n = stock_of(ARGV[i]), tonumber(ARGV[i + 1])
  if n < 0 then take(t, -n) else give(t, n) end
end
save()
redis.call('HINCRBY', SALE, 'balances', 1)
tell_low(low, now_ms())
return 1
