-- Puts the units of a transfer on sale in the partition that gets them, once: its mark stays as
-- long as the sale. A transfer read before the sale was loaded is refused, because after the
-- load the giver may still have its units.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 seen (set)
-- ARGV: 1 id of the transfer, 2 the load that the giver comes from, 3 <sku>=<units>,...
-- RETURNS: 1 they are there, 2 read again, 4 there is no such sale
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
local SEEN = KEYS[5]
local id, loading, lines = ARGV[1], ARGV[2], ARGV[3]

local s = redis.call('HMGET', SALE, 'version', 'loading')
if not s[1] then return 4 end
if (s[2] or '') ~= loading then return 2 end
if redis.call('SADD', SEEN, id) == 0 then return 1 end
for sku, n in string.gmatch(lines, '([^=,]+)=(%d+)') do
  give(stock_of(sku), tonumber(n))
end
save()
redis.call('HINCRBY', SALE, 'moves', 1)
return 1
