-- Changes a user's badge. What changes it has a name, and changes it once.
-- KEYS: 1 badge (string: see doc.go), 2 what changed it in even periods (hash: name to what it left behind), 3 in odd periods
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

-- again answers what a name has left behind.
local function again(left)
  if body == '' then return { 2, left } end
  local count, version, since, show, was = string.match(left, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
  if was ~= body then return { 3 } end
  return { 2, count, version, since, tonumber(show) > ms and show or '0' }
end

local known = redis.call('HGET', before, name)
if known then return again(known) end
-- A Redis whose memory is full refuses a script's first write if it takes memory. This one takes none, so that events
-- that were accepted are sent.
redis.call('PEXPIRE', badge, life)
local old, version, since, newest, show = string.match(redis.call('GET', badge) or '0 0 0 0 0', '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
local count = tostring(math.max(0, math.min(most, (how == 'add' and old or 0) + number)))
version = int(math.max(version + 1, us))
if since == '0' then since = ms end
newest = math.max(newest, came == '' and ms or came)
show = tonumber(show)
if gap ~= '' and show <= ms then show = math.max(show + gap, ms) end
local left = body == '' and count or table.concat({ count, version, since, show, body }, ' ')
if redis.call('HSETNX', names, name, left) == 0 then return again(redis.call('HGET', names, name)) end
redis.call('SET', badge, table.concat({ count, version, since, newest, show }, ' '), 'PX', life)
redis.call('PEXPIREAT', names, int((nth + 2) * period))
if body == '' then return { 1, count } end
return { 1, count, version, tostring(since), show > ms and int(show) or '0' }
