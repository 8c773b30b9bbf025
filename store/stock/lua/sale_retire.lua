-- Lets all keys of a partition expire, when the sale is long over and nothing of
-- it is left to do. A change of the settings takes that back.
-- KEYS: 1 sale, 2 due (zset), 3 orders (zset), 4 out (hash), then all other keys
--       of the partition
-- ARGV: 1 how long after its end in ms, 2 lifetime from now on in ms
-- RETURNS: 0 there is something left, 1 retired
local SALE, DUE, ORDERS, OUT = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local grace, lifetime = tonumber(ARGV[1]), ARGV[2]
local t = redis.call('TIME')
local ends = redis.call('HGET', SALE, 'ends')
if not ends or tonumber(t[1]) * 1000 < tonumber(ends) + grace then return 0 end
if redis.call('ZCARD', DUE) + redis.call('ZCARD', ORDERS) + redis.call('HLEN', OUT) > 0 then return 0 end
redis.call('HSET', SALE, 'retired', 1)
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, lifetime) end
return 1
