-- Makes a user a member. A user who is a member already keeps the position. Of two joins
-- at once the later stamp stays, as in the user's index.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 user, 2 stamp that the user's index has, 3 '1' to begin with the first message
--       that is kept, else with the next one, 4 channel of the user's chats, after those of
--       part_chat.lua
-- RETURNS: status 0 no such chat, 1 joined, 2 was a member; then after 1 and 2
--          the stamp that the index should have, the stamp of the join, and the position
-- @include lua/part_chat.lua
local user, stamp, from_start, channel = unpack(ARGV, OWN)

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
redis.pcall('PUBLISH', channel, '+' .. NAME)
return { 1, stamp, stamp, acked }
