-- Removes a partition if the sale ended long ago, was not read back lately, and has nothing left
-- to do. It takes a moment whatever the size: Redis frees the memory in the background.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due (zset), 5 orders (zset), 6 out (hash), then all
--       other keys of the partition, its outbox of facts (stream) last
-- ARGV: 1 how long after its end in ms, 2 how long after it was opened, 3 whether to
--       remove it (1), or to see whether it may be removed
-- RETURNS: 0 it is too early or something is left, 1 it is not there (any more), or may be removed
local SALE, DUE, ORDERS, OUT = KEYS[1], KEYS[4], KEYS[5], KEYS[6]
local kept, opened_for, remove = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local t = redis.call('TIME')
local s = redis.call('HMGET', SALE, 'ends', 'opened')
if not s[1] then return 1 end
if tonumber(t[1]) * 1000 < math.max(s[1] + kept, (s[2] or 0) + opened_for) then return 0 end
if redis.call('ZCARD', DUE) + redis.call('ZCARD', ORDERS) + redis.call('HLEN', OUT) + redis.call('XLEN', KEYS[#KEYS]) > 0 then return 0 end
if remove then redis.call('UNLINK', unpack(KEYS)) end
return 1
