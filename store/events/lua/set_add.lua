-- Adds events to a stream of a set. Adding one again does no harm.
-- KEYS: 1 the stream
-- ARGV: 1 lifetime of the stream in ms, 2 time in ms before which entries may be dropped, 3.. the
--       ids of the events
-- RETURNS: 1
local stream, lifetime, oldest, first = KEYS[1], ARGV[1], ARGV[2], 3

redis.call('PEXPIRE', stream, lifetime) -- the first write: no full Redis refuses it, nor the writes after it
for i = first, #ARGV do redis.call('XADD', stream, 'MINID', '~', oldest, '*', 'e', ARGV[i]) end
redis.call('PEXPIRE', stream, lifetime)
return 1
