-- Changes a user's badge. What changes it has a name, and changes it once.
-- KEYS: 1 badge (hash), 2 what changed it in even periods (hash: name to what it left behind), 3 in odd periods
-- ARGV: 1 'set' or 'add', 2 number, 3 the highest badge, 4 lifetime of the badge in ms, 5 name, 6 digest of the request's
--       body, or '' for an event, 7 a period in ms, 8 when the event came in ms, or '' for now, 9 how long after the number
--       was shown it may be shown again in ms, or '' if it is not to be shown
-- RETURNS: status 1 done, 2 done before, 3 the name was used with another body; then after 1 and 2 count, and if it was no
--          event version, since when there is a badge in ms, and when the number is to be shown in ms, 0 for now
-- @include lua/clock.lua
local badge = KEYS[1]
local how, number, most, life, name, body, period, came, gap = unpack(ARGV)
local us = now_us()
local ms = math.floor(us / 1000)
local nth = math.floor(ms / period)
local names, before = KEYS[2 + nth % 2], KEYS[3 - nth % 2]

local left = redis.call('HGET', names, name) or redis.call('HGET', before, name)
if left and body == '' then return { 2, left } end
if left then
  local count, version, since, show, was = string.match(left, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
  if was ~= body then return { 3 } end
  return { 2, count, version, since, tonumber(show) > ms and show or '0' }
end

-- A Redis whose memory is full refuses a script's first write if it takes memory. This one takes none, so that events
-- that were accepted are sent.
local found = redis.call('PEXPIRE', badge, life) == 1
local old = redis.call('HMGET', badge, 'n', 'v', 's', 'a', 'c')
local count = int(math.max(0, math.min(tonumber(most), (how == 'add' and old[1] or 0) + number)))
local version = int(math.max((old[2] or 0) + 1, us))
local since = old[3] or int(ms)
local show = tonumber(old[5] or 0)
if gap ~= '' and show <= ms then show = math.max(show + gap, ms) end
redis.call('HSET', badge, 'n', count, 'v', version, 's', since, 'a', int(math.max(old[4] or 0, came == '' and ms or came)), 'c', int(show))
if not found then redis.call('PEXPIRE', badge, life) end

left = count
if body ~= '' then left = table.concat({ left, version, since, int(show), body }, ' ') end
redis.call('HSET', names, name, left)
redis.call('PEXPIREAT', names, int((nth + 2) * period))
return { 1, count, version, since, show > ms and int(show) or '0' }
