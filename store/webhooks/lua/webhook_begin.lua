-- Sets the position of a webhook in a lane.
-- KEYS: 1 progress (hash)
-- ARGV: 1 position, 2 lifetime in ms, 3 what for: "1" a replay (what is under way then is not noted), else a webhook that is made
-- RETURNS: 1
local progress, position, life = KEYS[1], ARGV[1], ARGV[2]
redis.call('PEXPIRE', progress, life)
redis.call('HSET', progress, 'pos', position)
if ARGV[3] == '1' then redis.call('HINCRBY', progress, 'replays', 1) end
redis.call('PEXPIRE', progress, life)
return 1
