-- Writes a mark that replicas acknowledge. A full Redis takes it too: the script's first write frees memory.
-- KEYS: 1 the mark (string), 2 a key that never exists
-- ARGV: 1 how long the mark lives, in ms
-- RETURNS: 1
local mark, never, lasts = KEYS[1], KEYS[2], ARGV[1]

redis.call('DEL', never)
redis.call('SET', mark, 1, 'PX', lasts)
return 1
