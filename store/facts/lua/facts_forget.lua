-- Forgets sources whose last fact is so old that an older one is not moved (facts_move.lua).
-- KEYS: 1 the last id that was moved (hash)
-- ARGV: 1.. of each source two: its name, and the id that it had
-- RETURNS: how many were forgotten
local FROM, forgotten = KEYS[1], 0
for i = 1, #ARGV, 2 do
  if redis.call('HGET', FROM, ARGV[i]) == ARGV[i + 1] then forgotten = forgotten + redis.call('HDEL', FROM, ARGV[i]) end
end
return forgotten
