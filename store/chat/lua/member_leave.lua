-- Ends a user's membership; the last one's end is that of the chat. Records of
-- idempotency keys end by their own lifetime.
-- KEYS: 1 meta (hash), 2 due (zset) of the bucket
-- ARGV: 1 user, 2 channel of his chats, after those of part_chat.lua
-- RETURNS: status 0 no such chat, 1 left, 2 left and was the last, 4 was no
--          member; then the stamp of the join that ended, or ''
-- @include lua/part_chat.lua
-- @include lua/part_trim.lua
local user, channel = unpack(ARGV, OWN)

local c = load()
if not c then return { 0, '' } end
local join = join_of(user)
if not join then return { 4, '' } end
redis.call('ZREM', MEMBERS, user)
redis.call('ZREM', JOINS, join.entry)
redis.call('UNLINK', own_of(user))
redis.call('PUBLISH', channel, '-' .. NAME)
if redis.call('EXISTS', MEMBERS) == 1 then
  trim_acked(c)
  save(c)
  return { 1, join.stamp }
end
redis.call('UNLINK', META, LOG, MEMBERS, JOINS)
redis.call('ZREM', DUE, NAME)
return { 2, join.stamp }
