-- Makes a group's record live at least so much longer.
-- KEYS: 1 the hash that holds the record
-- ARGV: 1 ms to live
-- RETURNS: 1 it does, 0 there is none
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 1
