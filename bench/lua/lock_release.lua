-- Releases a lock, unless it is another's by now.
-- KEYS: 1 lock
-- ARGV: 1 token of the holder
-- RETURNS: 1 released, 0 not his
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
