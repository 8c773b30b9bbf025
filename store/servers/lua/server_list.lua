-- Lists the processes that were seen lately.
-- KEYS: 1 the processes (sorted set: descriptions, by the ms at which each was seen last)
-- ARGV: 1 how long a process is listed, in ms, 2 the most processes
-- RETURNS: {description, ms at which it was seen last, description, ms ...}
-- @include lua/clock.lua
local seen, lifetime, most = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local since = math.floor(now_us() / 1000) - lifetime

return redis.call('ZRANGEBYSCORE', seen, '(' .. int(since), '+inf', 'WITHSCORES', 'LIMIT', 0, most)
