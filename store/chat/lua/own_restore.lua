-- Finds, in a piece of the log, what a user sent when he was a member before: it does not
-- count as unread when he joins from the start. Naturally idempotent.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 user, 2 id from which to search, 3 most bytes to read, which one chunk may
--       exceed, 4 lifetime in ms of what is found, unless he joins, after those of
--       part_chat.lua
-- RETURNS: status 0 no such chat, 1 searched; then after 1 the epoch, and the id from
--          which to go on, 0 at the end
-- @include lua/part_chat.lua
local user, from, budget, lifetime = unpack(ARGV, OWN)
local CHUNK, SENDER = 50, 15 -- where the sender begins in an entry, after 13 digits of time
from, budget = tonumber(from), tonumber(budget)

local c = load()
if not c then return { 0 } end
local own, mark, bytes = own_of(user), user .. ' ', 0
if redis.call('ZSCORE', MEMBERS, user) then return { 1, c.epoch, '0' } end
for start = math.max(from, c.first), c.last, CHUNK do
  if bytes >= budget then return { 1, c.epoch, int(start) } end
  for i, entry in ipairs(redis.call('LRANGE', LOG, start - c.head, start + CHUNK - 1 - c.head)) do
    bytes = bytes + #entry
    if string.sub(entry, SENDER, SENDER + #user) == mark then
      redis.call('ZADD', own, start + i - 1, start + i - 1)
      redis.call('PEXPIRE', own, lifetime)
    end
  end
end
return { 1, c.epoch, '0' }
