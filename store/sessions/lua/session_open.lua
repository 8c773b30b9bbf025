-- Begins a session. A second run begins it anew.
-- KEYS: 1 the session (string: the ms at which it ends at the latest, and the API key's id)
-- ARGV: 1 the API key's id, 2 how long it lasts without use, in ms, 3 how long it lasts at most, in ms
-- RETURNS: 1
-- @include lua/clock.lua
local session, key, idle, life = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ms = math.floor(now_us() / 1000)

redis.call('SET', session, int(ms + life) .. ' ' .. key, 'PX', int(math.min(idle, life)))
return 1
