-- One partition at this moment: settings, numbers, and the transfers that leave it. It needs
-- lua/part_sale.lua and lua/part_due.lua before it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- state gives {1 found, now in ms, ms to the next due hold or -1, settings, sku
-- and numbers in turn, sku and total in turn, transfer and text in turn}, or
-- {4, 5, 6 as unusable}; 5 and 6 have the same values behind them as 1.
local function state(run, totals, out)
  local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'partitions', 'starts', 'ends', 'limit', 'hold', 'idle',
    'used', 'skus', 'moves', 'returns', 'recorded', 'spread', 'balances', 'made', 'loading', 'max_hold', 'lows', 'low')
  for i = 1, #s do s[i] = s[i] or '' end
  local status = unusable(s[1] ~= '' and s[1], s[2] ~= '', s[3], run) or 1
  if status == 4 then return { 4 } end
  local now = now_ms()
  local numbers = redis.call('HGETALL', STOCK) -- bounded: a sale has at most 100 skus
  local units = redis.call('HGETALL', totals) -- bounded: the same
  local leaving = redis.call('HGETALL', out) -- bounded: transfers take milliseconds
  return { status, now, next_due(now), s, numbers, units, leaving }
end
