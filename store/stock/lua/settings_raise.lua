-- Raises a number in a partition's settings; a lower one changes nothing. Naturally idempotent.
-- KEYS: 1 sale
-- ARGV: 1 field, 2 the number
-- RETURNS: 0 there is no sale, 1 noted
if redis.call('HEXISTS', KEYS[1], 'version') == 0 then return 0 end
local old = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if tonumber(ARGV[2]) > old then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
return 1
