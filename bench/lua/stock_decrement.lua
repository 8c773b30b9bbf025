-- Takes units from a counter if it has enough: the least work of any sale.
-- KEYS: 1 counter
-- ARGV: 1 units
-- RETURNS: 1 taken, 0 not enough
local left = tonumber(redis.call('GET', KEYS[1]) or '0')
if left < tonumber(ARGV[1]) then return 0 end
redis.call('DECRBY', KEYS[1], ARGV[1])
return 1
