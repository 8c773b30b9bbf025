-- Records up to which message pushes are done. After the last one, nothing is due.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 epoch, 2 id, after those of part_chat.lua
-- RETURNS: 0 the chat is gone or another one, 1 recorded
-- @include lua/part_chat.lua
-- @include lua/part_trim.lua
local epoch, id = unpack(ARGV, OWN)

local c = load()
if not c or not c.pushed then redis.call('ZREM', DUE, NAME) end
if c and epoch == c.was then epoch, id = c.epoch, math.min(tonumber(id), c.since) end
if not c or c.epoch ~= epoch then return 0 end
if not c.pushed then return 1 end
local before = c.pushed
c.pushed = math.max(before, math.min(tonumber(id), c.last))
local done = c.pushed - before
if c.pushed == c.last then
  c.pushed = nil
  redis.call('ZREM', DUE, NAME)
else
  redis.call('ZADD', DUE, c.now, NAME)
end
save(c, done) -- messages that stayed to be pushed leave now
return 1
