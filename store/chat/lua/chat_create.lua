-- Makes a chat with its first members and, if given, its first message. Without members
-- it only returns what the outcome would be.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket, 3 record (string) of the
--       idempotency key
-- ARGV: 1 epoch, which names the request too, 2 digest of the body or '' for no
--       record, 3 lifetime of the record in ms, 4 members or '': each with the
--       stamp of the join, separated by blanks, 5 prefix of the channels of
--       members, 6 creator, 7 first message or '', 8 channel of messages, 9 1
--       if the message should be pushed, 10 1 if a fact tells of it, after those of
--       part_chat.lua
-- RETURNS: status 1 made, 2 made by an earlier request, 3 the key was used with
--          another body, 5 the chat exists, 6 it would be made; then after 1 and 2
--          the epoch
-- @include lua/part_chat.lua
-- @include lua/part_trim.lua
-- @include lua/part_tell.lua
-- @include lua/part_append.lua
-- @include lua/part_facts.lua
local RECORD = KEYS[3]
local epoch, digest, ttl, members, member_channel, creator, text, channel, push, tells = unpack(ARGV, OWN)
local CHUNK = 100

-- enter makes users members of the chat.
local function enter(users, stamps)
  if #users == 0 then return end
  local positions, joins = {}, {}
  for i, user in ipairs(users) do
    positions[2 * i - 1], positions[2 * i] = 0, user
    joins[2 * i - 1], joins[2 * i] = 0, user .. ' ' .. stamps[i]
    redis.pcall('PUBLISH', member_channel .. user, '+' .. NAME)
  end
  redis.call('ZADD', MEMBERS, unpack(positions))
  redis.call('ZADD', JOINS, unpack(joins))
end

local by, body = string.match(digest ~= '' and redis.call('GET', RECORD) or '', '^(%S+) (%S+)$')
if by then
  if body ~= digest then return { 3 } end
  return { by == epoch and 1 or 2, by }
end
local c = load()
if c then
  if life_of(c.epoch) == epoch then return { 1, epoch } end
  return { 5 }
end
if members == '' then return { 6 } end
if digest ~= '' then redis.call('SET', RECORD, epoch .. ' ' .. digest, 'PX', ttl) end
local now = now_ms()
store({ epoch = epoch, last = 0, first = 1, at = now, made = now, run = NOW_RUN })
local users, stamps = {}, {}
for user, stamp in string.gmatch(members, '(%S+) (%S+)') do
  users[#users + 1], stamps[#stamps + 1] = user, stamp
  if #users == CHUNK then
    enter(users, stamps)
    users, stamps = {}, {}
  end
end
enter(users, stamps)
if text ~= '' then
  c = meta()
  append(c, { int(now) .. ' ' .. creator .. ' ' .. text }, { creator }, #text, 0, channel, push == '1')
  if tells == '1' then leave_messages(c, { creator }) end
end
return { 1, epoch }
