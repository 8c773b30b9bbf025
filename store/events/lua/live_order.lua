-- Gives the next event of an object its place among the object's events: a time in us that rises with each event, also
-- if the clock of a new master is behind.
-- KEYS: 1 what the object's live events have come to (hash)
-- ARGV: 1 lifetime in ms
-- RETURNS: 1 and the place as text
-- @include lua/clock.lua
local order, life = KEYS[1], ARGV[1]

redis.call('PEXPIRE', order, life) -- the first write: no full Redis refuses it, nor the writes after it
local last = tonumber(redis.call('HGET', order, 'last') or '0')
local place = math.max(last + 1, now_us())
redis.call('HSET', order, 'last', int(place))
redis.call('PEXPIRE', order, life)
return { 1, int(place) }
