-- Removes a partition, when the sale is long over and nothing of it is left to do:
-- whatever its size in one moment, since Redis frees the memory beside its work.
-- KEYS: 1 sale, 2 due (zset), 3 orders (zset), 4 out (hash), then all other keys of
--       the partition
-- ARGV: 1 how long after its end in ms, 2 whether to remove it (1), or to see whether it may go
-- RETURNS: 0 it is too early or something is left, 1 removed, or it may go
local SALE, DUE, ORDERS, OUT = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local kept, remove = tonumber(ARGV[1]), ARGV[2] == '1'
local t = redis.call('TIME')
local ends = redis.call('HGET', SALE, 'ends')
if not ends or tonumber(t[1]) * 1000 < tonumber(ends) + kept then return 0 end
if redis.call('ZCARD', DUE) + redis.call('ZCARD', ORDERS) + redis.call('HLEN', OUT) > 0 then return 0 end
if remove then redis.call('UNLINK', unpack(KEYS)) end
return 1
