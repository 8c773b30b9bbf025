-- Brings one partition that is behind to a version of the sale's settings: those of the first
-- partition, or for a load those on record. Naturally idempotent. It gives no stock. A partition
-- that a load makes belongs to no run before it is opened: by that sale_open sees that Redis lost it.
-- KEYS: 1 sale, 2 stock, 3 totals (hash)
-- ARGV: 1 run (see run_id), 2 1 to close it, 3 1 for the first partition, which has the totals,
--       4 the load that closes it, or that the first partition comes from,
--       5 version, 6 starts, 7 ends, 8 limit, 9 hold, 10 idle, 11 partitions,
--       12 max_hold, 13 lows, 14.. sku and total in turn
-- RETURNS: 1
-- @include lua/part_run.lua
-- @include lua/part_settings.lua
local SALE, STOCK, TOTALS = KEYS[1], KEYS[2], KEYS[3]
local run, close, is_first, loading, version = run_id(ARGV[1]), ARGV[2] == '1', ARGV[3] == '1', ARGV[4], ARGV[5]
local at, first, step = 6, 14, 2

local old = redis.call('HGET', SALE, 'version')
if close then redis.call('HSET', SALE, 'closed', '@' .. run) end
if close or not old then redis.call('HSET', SALE, 'loading', loading) end
if not old and not close then redis.call('HSET', SALE, 'run_id', run) end
if tonumber(old or 0) >= tonumber(version) then return 1 end
redis.call('HSET', SALE, 'version', version)
write_settings(at, first, step)
for i = first, #ARGV - 1, step do
  redis.call('HSETNX', STOCK, ARGV[i], '0 0 0 0')
  if is_first then redis.call('HSET', TOTALS, ARGV[i], ARGV[i + 1]) end
end
return 1
