-- Notes that a process is alive, and forgets the processes that have been silent for too long. A
-- second run only notes a later time.
-- KEYS: 1 the processes (sorted set: descriptions, by the ms at which each was seen last)
-- ARGV: 1 the description of this process, 2 how long a process is listed, in ms, then those of its
--       descriptions that it replaces
-- RETURNS: 1
-- @include lua/clock.lua
local seen, about, lifetime = KEYS[1], ARGV[1], tonumber(ARGV[2])
local ms = math.floor(now_us() / 1000)

if #ARGV > 2 then redis.call('ZREM', seen, unpack(ARGV, 3)) end
redis.call('ZADD', seen, int(ms), about)
redis.call('ZREMRANGEBYSCORE', seen, '-inf', int(ms - lifetime))
redis.call('PEXPIRE', seen, int(lifetime))
return 1
