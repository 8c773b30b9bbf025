-- Reads the messages of a chat that are due to be pushed. It changes nothing.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 most messages to read, after those of part_chat.lua
-- RETURNS: status 0 no such chat, 1 read; then after 1 epoch, last id, id up to
--          which this read goes, id of the first message returned, the
--          messages as the log has them
-- @include lua/part_chat.lua
local limit = tonumber(unpack(ARGV, OWN))

local c = load()
if not c then return { 0 } end
local from = math.max((c.pushed or c.last) + 1, c.head)
local to = math.min(c.last, from + limit - 1)
local items = {}
if from <= to then
  -- bounded: by limit
  items = redis.call('LRANGE', LOG, from - c.head, to - c.head)
end
return { 1, c.epoch, c.last, to, from, items }
