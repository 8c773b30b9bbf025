-- Ends a user's membership. When the last member leaves, the chat is deleted. Records of
-- idempotency keys expire by themselves.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket, 3 record (string) of this call
-- ARGV: 1 user, 2 channel of the user's chats, 3 lifetime of the record in ms, 4 the latest stamp
--       of a join that may end, or '', 5 channel of messages, after those of part_chat.lua
-- RETURNS: status 0 no such chat, 1 left, 2 left and was the last, 4 was no
--          member; then the stamp of the join that ended, or ''
-- @include lua/part_chat.lua
-- @include lua/part_trim.lua
-- @include lua/part_tell.lua
local CALL = KEYS[3]
local user, channel, call_ttl, latest, messages = unpack(ARGV, OWN)

-- A client that lost the reply sends the same call again. By then the user may have joined
-- again, and must not lose that membership.
local status, ended = string.match(redis.call('GET', CALL) or '', '^(%d) (.*)$')
if status then return { tonumber(status), ended } end
local function answer(status, stamp)
  redis.call('SET', CALL, status .. ' ' .. stamp, 'PX', call_ttl)
  return { status, stamp }
end

local c = load()
if not c then return answer(0, '') end
local join = join_of(user)
if not join or latest ~= '' and tonumber(join.made) > tonumber(latest) then return answer(4, '') end
redis.call('ZREM', MEMBERS, user)
redis.call('ZREM', JOINS, join.entry)
redis.call('UNLINK', own_of(user))
redis.pcall('PUBLISH', channel, '-' .. NAME)
tell(messages, '~left ' .. user) -- on a Cluster the other channel may be behind the messages to come
if redis.call('EXISTS', MEMBERS) == 1 then
  trim_acked(c)
  save(c, 0)
  return answer(1, join.stamp)
end
redis.call('UNLINK', META, LOG, MEMBERS, JOINS)
redis.call('ZREM', DUE, NAME)
return answer(2, join.stamp)
