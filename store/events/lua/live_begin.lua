-- Begins a live event of an object and gives it its timestamp, in whole seconds.
--
-- The updates and ends that reach the same phones are a lane. An event of a lane goes through these states:
--   waiting  It may not begin yet, and asks again. Of the updates that wait the newest goes on: older ones let it, as long as
--            it asks ("waits", "waited").
--   begun    It has its timestamp ("event", "action", "begun", "at", "stamp"). The next one of the lane begins a second later, and
--            when this one is over or took too long.
--   gone     A newer one began before this update. An end never is.
-- A start has no lane, because it has tokens of its own: it begins at once, or is gone if a newer end of the object began
-- ("ended"). Timestamps never fall for an object ("highest"), and rise with each event of a lane, also if the clock of a
-- new master is behind. Beginning the event that began last gives the same timestamp.
-- KEYS: 1 what the object's live events have come to (hash)
-- ARGV: 1 the event, 2 its place, 3 'start', 'update' or 'end', 4 its lane, 5 lifetime in ms, 6 the same behind an end,
--       7 how long the event before is waited for, in ms, 8 an event that is known to be over, or ''
-- RETURNS: status 1 begun, 2 gone, 3 waiting; then after 1 the timestamp, and after 3 in how many ms to ask again, and the
--          event that it waits for, '' for none
-- @include lua/clock.lua
local order, event, action, lane, life = KEYS[1], ARGV[1], ARGV[3], ARGV[4], ARGV[5]
local place, after_end, patience, over = tonumber(ARGV[2]), ARGV[6], tonumber(ARGV[7]) * 1000, ARGV[8]
local now, pause, fresh = now_us(), 1000000, 2000000
local second = math.floor(now / 1000000)
local function of(name) return name .. ' ' .. lane end
local function lately(at, long) return now - at >= 0 and now - at < long end

redis.call('PEXPIRE', order, life) -- the first write: no full Redis refuses it, nor the writes after it
local found = redis.call('HMGET', order, 'highest', 'ended', of('event'), of('begun'), of('at'), of('stamp'), of('waits'), of('waited'))
local function number(n) return tonumber(found[n] or '0') end
local highest, ended, before = number(1), number(2), found[3] or ''
local begun, at, stamp, waits, waited = number(4), number(5), number(6), number(7), number(8)

if action == 'start' then
  if place < ended then return { 2 } end
  highest = math.max(second, highest)
  redis.call('HSET', order, 'highest', int(highest))
  redis.call('PEXPIRE', order, life)
  return { 1, highest }
end
if before == event then return { 1, stamp } end
if action == 'update' and place < begun then return { 2 } end

local wait, whose = 0, ''
if before ~= '' and before ~= over and lately(at, patience) then -- asked seldomer the longer it takes
  wait, whose = math.min(math.max(100, math.floor((now - at) / 8000)), 1000), before
end
if at <= now + pause then -- otherwise the clock fell back
  wait = math.max(wait, math.ceil((at + pause - now) / 1000))
end
if action == 'update' and place < waits and lately(waited, fresh) then
  wait = math.max(wait, 100)
end
if wait > 0 then
  if place >= waits or not lately(waited, fresh) then
    redis.call('HSET', order, of('waits'), int(place), of('waited'), int(now))
    redis.call('PEXPIRE', order, life)
  end
  return { 3, wait, whose }
end
stamp = math.max(second, highest, stamp + 1)
redis.call('HSET', order, 'highest', int(stamp), of('event'), event, of('action'), action, of('begun'), int(math.max(begun, place)), of('at'), int(now), of('stamp'), int(stamp))
if action == 'end' then
  redis.call('HSET', order, 'ended', int(math.max(ended, place)))
  life = after_end
end
redis.call('PEXPIRE', order, life)
return { 1, stamp }
