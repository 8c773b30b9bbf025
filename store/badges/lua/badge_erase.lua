-- Forgets a user's badge, unless something that came later than a time has changed it.
-- KEYS: 1 badge (hash), 2 what changed it in even periods (hash), 3 in odd periods
-- ARGV: 1 the time in ms
-- RETURNS: 1 there is none any more, 0 it stays
local came = redis.call('HGET', KEYS[1], 'a')
if came and tonumber(came) > tonumber(ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
return 1
