-- Reads a partition: settings, numbers, and what is on its way to others.
-- KEYS: 1 sale, 2 stock, 3 book, 4 due, 5 totals (hash),
--       6 out (hash)
-- ARGV: 1 run
-- RETURNS: {1 found, now in ms, ms to the next due hold or -1, settings, sku and
--          numbers in turn, sku and total in turn, transfer and text in turn},
--          {4, 5, 6 as shut}; with 5 and 6 the rest follows as with 1
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
local TOTALS, OUT = KEYS[5], KEYS[6]
local s = redis.call('HMGET', SALE, 'version', 'closed', 'run', 'partitions', 'starts', 'ends', 'limit', 'hold', 'idle',
  'used', 'skus', 'moves', 'returns', 'recorded', 'spread', 'balances', 'made')
for i = 1, #s do s[i] = s[i] or '' end
local status = shut(s[1] ~= '' and s[1], s[2] ~= '', s[3], ARGV[1]) or 1
if status == 4 then return { 4 } end
local now = now_ms()
local numbers = redis.call('HGETALL', STOCK) -- bounded: a sale has at most 100 skus
local totals = redis.call('HGETALL', TOTALS) -- bounded: the same
local out = redis.call('HGETALL', OUT) -- bounded: by the transfers of a moment
return { status, now, next_due(now), s, numbers, totals, out }
