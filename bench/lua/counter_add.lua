-- Adds to a counter within its bounds: the least work of any bounded counter.
-- KEYS: 1 counter
-- ARGV: 1 the number to add, 2 the least and 3 the largest number of the counter
-- RETURNS: the number, or false if it would leave the bounds
local to = tonumber(redis.call('GET', KEYS[1]) or '0') + tonumber(ARGV[1])
if to < tonumber(ARGV[2]) or to > tonumber(ARGV[3]) then return false end
redis.call('SET', KEYS[1], string.format('%d', to))
return to
