-- Notes in the first partition which skus of a sale with several partitions are low, and leaves a fact about each that was not. A
-- sale that was made from the record just now leaves none (see order_restore.lua). It does nothing if the sale changed, or another
-- call noted something, since the caller read.
-- KEYS: 1 sale, then a key that never exists
-- ARGV: 1 version, 2 what was noted, both as the caller saw them, 3 what is noted now, 4.. of each sku that is to be told
--       three: the sku, how many units are available, its low_at
-- RETURNS: 0 read again, 1 done
-- @include lua/clock.lua
local SALE, version, before, now, first = KEYS[1], ARGV[1], ARGV[2], ARGV[3], 4
-- @include lua/part_facts.lua
local s = redis.call('HMGET', SALE, 'version', 'low', 'run_id')
if s[1] ~= version or (s[2] or '') ~= before then return 0 end
redis.call('HDEL', SALE, 'low') -- a script whose first write frees memory is not refused by a full Redis
redis.call('HSET', SALE, 'low', now)
local at = int(math.floor(now_us() / 1000))
if not s[3] then return 1 end
for i = first, #ARGV, 3 do tell_below(ARGV[i], ARGV[i + 1], ARGV[i + 2], at) end
return 1
