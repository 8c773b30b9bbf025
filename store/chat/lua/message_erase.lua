-- Removes content and sender of a user's messages from the log, and publishes that. Ids and
-- times stay. The user may have left the chat. Running it twice is the same as once.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 user, 2 time in ms up to which messages count, 3 name that takes the user's place,
--       4 first id, 5 most messages to look at, 6 channel of messages, after those of
--       part_chat.lua
-- RETURNS: status 0 no such chat, 1 done; then after 1 the id to go on with or 0, and how many
--          messages were changed
-- @include lua/part_chat.lua
-- @include lua/part_trim.lua
-- @include lua/part_tell.lua
local user, upto, other, from, most, channel = unpack(ARGV, OWN)

local c = load()
if not c then return { 0 } end
from = math.max(tonumber(from), c.head)
local to, changed = math.min(c.last, from + tonumber(most) - 1), 0
-- bounded: by most
for i, entry in ipairs(from <= to and redis.call('LRANGE', LOG, from - c.head, to - c.head) or {}) do
  local id, at, by = from + i - 1, match(entry, '^(%d+) (%S+) ')
  if by == user and tonumber(at) <= tonumber(upto) then
    local bare = at .. ' ' .. other .. ' '
    redis.call('ZREM', DUE, '') -- the first write: no full Redis refuses it, nor the writes after it
    redis.call('LSET', LOG, id - c.head, bare)
    c.bytes = c.bytes and c.bytes - weigh({ entry })
    tell(channel, c.epoch .. ' ' .. int(id) .. ' ' .. bare)
    changed = changed + 1
  end
end
if changed > 0 then store(c) end
return { 1, to < c.last and to + 1 or 0, changed }
