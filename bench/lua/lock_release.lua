-- Releases a lock, unless another holder has it.
-- KEYS: 1 lock
-- ARGV: 1 token of the holder
-- RETURNS: 1 released, 0 another holder has it
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
