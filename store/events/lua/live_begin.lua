-- Begins a live event of an object and gives it its timestamp, in whole seconds, above those of all that began before.
-- Beginning an event again gives the same timestamp, unless another has begun since.
-- KEYS: 1 what the object's live events have come to (hash)
-- ARGV: 1 the event, 2 its place, 3 'start', 'update' or 'end', 4 lifetime in ms, 5 how far a timestamp may be ahead of
--       the clock, in s, 6 how long the event before is waited for, in ms, 7 an event that is known to be over, or ''
-- RETURNS: status 1 begun, 2 a newer one goes before it, 3 not yet; then after 1 the timestamp, and after 3 in how many
--          ms it may begin, and the event that it waits for, '' for none
-- @include lua/clock.lua
local order, event, action, life, ahead, over = KEYS[1], ARGV[1], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[7]
local place, patience = tonumber(ARGV[2]), tonumber(ARGV[6])
local now = now_us()
local second = math.floor(now / 1000000)

redis.call('PEXPIRE', order, life) -- the first write: no full Redis refuses it, nor the writes after it
local found = redis.call('HMGET', order, 'event', 'begun', 'at', 'stamp', 'waits', 'starts')
local before, begun, at, stamp = found[1] or '', tonumber(found[2] or '0'), tonumber(found[3] or '0'), tonumber(found[4] or '0')
local waits, starts = tonumber(found[5] or '0'), tonumber(found[6] or '0')

if action == 'start' then -- it has tokens of its own, so several may share a second
  local when = math.max(second, stamp, starts)
  redis.call('HSET', order, 'starts', int(when))
  redis.call('PEXPIRE', order, life)
  return { 1, when }
end
if before == event then return { 1, stamp } end
if action == 'update' and place < math.max(begun, waits) then return { 2 } end

local first = math.max(stamp, starts) + 1
local wait, whose = 0, ''
if before ~= '' and before ~= over and now - at >= 0 and now - at < patience * 1000 then
  wait, whose = 100, before
end
if first > second and first - second <= ahead then
  wait = math.max(wait, first * 1000 - math.floor(now / 1000))
end
if wait > 0 then
  redis.call('HSET', order, 'waits', int(math.max(waits, place)))
  redis.call('PEXPIRE', order, life)
  return { 3, wait, whose }
end
stamp = math.max(second, first)
redis.call('HSET', order, 'event', event, 'begun', int(math.max(begun, place)), 'at', int(now), 'stamp', int(stamp))
redis.call('PEXPIRE', order, life)
return { 1, stamp }
