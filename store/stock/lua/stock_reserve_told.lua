-- Reserves as lua/stock_reserve.lua does, and tells of holds that expire and of skus that become low.
-- KEYS: those of stock_reserve.lua: 1 sale, 2 stock, 3 reservations, 4 due, 5 orders (zset), then the idempotency record of each
--       caller that wants one, and a key that never exists
-- ARGV: those of stock_reserve.lua, but: 5 what is told (see tell_of), 6.. of each caller
-- RETURNS: as stock_reserve.lua, with one more value of all callers: how many facts were left
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
-- @include lua/part_told.lua
-- @include lua/part_crowd.lua
tell_of(ARGV[5])
local first = 6
-- @include lua/part_reserve.lua
local low = low_skus()
local answers = each_caller(first, { s[1], now, expires }, reserve)
save_made()
if #made > 0 then tell_low(low, now) end
answers[2][4] = told
return answers
