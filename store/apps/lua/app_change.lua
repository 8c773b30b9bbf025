-- Moves one app from one state to another; the time of its first pause is kept.
-- KEYS: 1 the paused apps (hash)
-- ARGV: 1 app, 2 state it must be in, '' for running, '*' for any, 3 state it goes to, '' for running, 4 reason, '' keeps the
--       old one, 5 lifetime of the hash in s, 6 type of the fact that tells of it, or '', 7 the fact's data
-- RETURNS: 1 changed, 0 the app is in another state or already there
local paused = KEYS[1]
local app, from, to, reason, ttl, typ, data = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local P = string.match(paused, '^(.*:)') -- begins the keys of the slot
-- @include lua/fact_leave.lua

local time = redis.call('TIME')
local now = time[1] .. string.format('%03d', math.floor(tonumber(time[2]) / 1000))
local state, since, old = '', now, ''
local value = redis.call('HGET', paused, app)
if value then
  state, since, old = string.match(value, '^(%S+) (%S+) (.*)$')
end
if (from ~= '*' and from ~= state) or state == to then
  return 0
end
if to == '' then
  redis.call('HDEL', paused, app)
else
  if reason == '' then reason = old end
  redis.call('HSET', paused, app, to .. ' ' .. since .. ' ' .. reason)
  redis.call('EXPIRE', paused, ttl)
end
if typ ~= '' then leave_fact(typ, app, now, data) end
return 1
