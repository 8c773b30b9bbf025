-- Makes a user a member. Who is one keeps his position; of two joins at once
-- the later stamp stays, as in the user's index.
-- KEYS: 1 meta (hash), 2 due (zset) of the bucket
-- ARGV: 1 user, 2 stamp that the user's index has, 3 1 to begin with the first
--       message that is kept, 4 channel of the user's chats, after those of
--       part_chat.lua
-- RETURNS: status 0 no such chat, 1 joined, 2 was a member; then after 1 and 2
--          the stamp that his index should have, that of his join, and his position
-- @include lua/part_chat.lua
local user, stamp, from_start, channel = unpack(ARGV, OWN)
local CHUNK, SENDER = 100, 15 -- where the sender begins in an entry, after 13 digits of time

-- restore_own finds what the user sent when he was a member before: it does not
-- count as unread.
local function restore_own(c)
  local own, mark = own_of(user), user .. ' '
  for start = c.first, c.last, CHUNK do
    for i, entry in ipairs(redis.call('LRANGE', LOG, start - c.head, start + CHUNK - 1 - c.head)) do
      if string.sub(entry, SENDER, SENDER + #user) == mark then
        redis.call('ZADD', own, start + i - 1, start + i - 1)
      end
    end
  end
  redis.call('PEXPIRE', own, math.max(c.at - c.now, 0) + AGE + MARGIN)
end

local c = load()
if not c then return { 0 } end
local join = join_of(user)
if join then
  if tonumber(join.stamp) < tonumber(stamp) then
    redis.call('ZREM', JOINS, join.entry)
    redis.call('ZADD', JOINS, 0, user .. ' ' .. stamp .. ' ' .. join.made)
    join.stamp = stamp
  end
  return { join.made == stamp and 1 or 2, join.stamp, join.made, tonumber(redis.call('ZSCORE', MEMBERS, user)) }
end
local acked = from_start == '1' and c.first - 1 or c.last
redis.call('ZADD', MEMBERS, acked, user)
redis.call('ZADD', JOINS, 0, user .. ' ' .. stamp)
if from_start == '1' then restore_own(c) end
redis.call('PUBLISH', channel, '+' .. NAME)
return { 1, stamp, stamp, acked }
