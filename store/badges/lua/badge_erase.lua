-- Forgets a user's badge, unless something that came later than a time has changed it.
-- KEYS: 1 badge (string), 2 and on: what changed it (hashes)
-- ARGV: 1 the time in ms
-- RETURNS: 1 there is none any more, 0 it stays
local came = string.match(redis.call('GET', KEYS[1]) or '', '^%d+ %d+ %d+ (%d+)')
if came and tonumber(came) > tonumber(ARGV[1]) then return 0 end
redis.call('DEL', unpack(KEYS))
return 1
