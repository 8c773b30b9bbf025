-- Gives a message an id and stores it: the least work of any chat.
-- KEYS: 1 counter, 2 messages
-- ARGV: 1 text
-- RETURNS: the id
local id = redis.call('INCR', KEYS[1])
redis.call('ZADD', KEYS[2], id, id .. ' ' .. ARGV[1])
return id
