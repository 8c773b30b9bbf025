-- Purpose: moves one app from one state to another; the time of its first pause is kept.
-- KEYS[1] the hash of paused apps
-- ARGV[1] app
-- ARGV[2] the state it must be in, "" for running, "*" for any
-- ARGV[3] the state it goes to, "" for running
-- ARGV[4] reason, "" keeps the old one
-- ARGV[5] lifetime of the hash in seconds
-- RETURNS 1 changed, 0 the app is in another state or already there
local paused = KEYS[1]
local app, from, to, reason, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local now = redis.call('TIME')
local state, since, old = '', now[1] .. string.format('%03d', math.floor(tonumber(now[2]) / 1000)), ''
local value = redis.call('HGET', paused, app)
if value then
  state, since, old = string.match(value, '^(%S+) (%S+) (.*)$')
end
if (from ~= '*' and from ~= state) or state == to then
  return 0
end
if to == '' then
  redis.call('HDEL', paused, app)
  return 1
end
if reason == '' then
  reason = old
end
redis.call('HSET', paused, app, to .. ' ' .. since .. ' ' .. reason)
redis.call('EXPIRE', paused, ttl)
return 1
