-- Finds the API key of a session, and lets the session last longer.
-- KEYS: 1 the session (string: the ms at which it ends at the latest, and the API key's id)
-- ARGV: 1 how long it lasts from now on without use, in ms, 0: as long as before
-- RETURNS: the API key's id, '' if there is no such session
-- @include lua/clock.lua
local session, idle = KEYS[1], tonumber(ARGV[1])

local value = redis.call('GET', session)
if not value then return '' end
local ends, key = string.match(value, '^(%d+) (.+)$')
if not ends then return '' end
if idle > 0 then
  local left = tonumber(ends) - math.floor(now_us() / 1000)
  redis.call('PEXPIRE', session, int(math.min(idle, left)))
  if left <= 0 then return '' end
end
return key
