-- Gives the next event of an object its place among the object's events: a time in us that rises with each event, also
-- if the clock of a new master is behind. An event for later gets the time at which it is due, in ms, and a number that
-- rises with each event for later, up to 999.
-- KEYS: 1 what the object's live events have come to (hash)
-- ARGV: 1 lifetime in ms, 2 when the event is due, in Unix ms, 0 for now
-- RETURNS: 1 and the place as text
-- @include lua/clock.lua
local order, life, due = KEYS[1], ARGV[1], tonumber(ARGV[2])

redis.call('PEXPIRE', order, life) -- the first write: no full Redis refuses it, nor the writes after it
local place
if due > 0 then
  place = due * 1000 + redis.call('HINCRBY', order, 'later', 1) % 1000
else
  place = math.max(tonumber(redis.call('HGET', order, 'last') or '0') + 1, now_us())
  redis.call('HSET', order, 'last', int(place))
end
redis.call('PEXPIRE', order, life)
return { 1, int(place) }
