-- Moves a member's position forward, never back, and over the member's own messages that
-- directly follow.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 user, 2 id, 3 the epoch that it is of, or '', 4 channel of messages, 5 most members of
--       a chat whose streams are told, after those of part_chat.lua
-- RETURNS: status 0 no such chat, 1 the position is at the id or beyond, 4 the user
--          is no member, 5 there is no such message yet, 6 the messages up to the id are
--          of another epoch; then after 1 the position, after 5 the last id
-- @include lua/part_chat.lua
-- @include lua/part_trim.lua
-- @include lua/part_tell.lua
local user, id, epoch, channel, most_told = unpack(ARGV, OWN)
id = tonumber(id)

-- own_run counts the member's own messages that directly follow id. They are the first of
-- the own messages above id, so that it can bisect.
local function own_run(own)
  redis.call('ZREMRANGEBYSCORE', own, '-inf', id)
  local sure, most = 0, redis.call('ZCARD', own)
  for _ = 1, 53 do
    if sure >= most then break end
    local middle = math.ceil((sure + most) / 2)
    local nth = redis.call('ZRANGE', own, middle - 1, middle - 1)[1]
    if tonumber(nth) == id + middle then sure = middle else most = middle - 1 end
  end
  return sure
end

local c = load()
if not c then return { 0 } end
local acked = redis.call('ZSCORE', MEMBERS, user)
if not acked then return { 4 } end
if epoch ~= '' and epoch ~= c.epoch and (epoch ~= c.was or id > c.since) then return { 6 } end
if id > c.last then return { 5, c.last } end
if id <= tonumber(acked) then return { 1, tonumber(acked) } end
local own = own_of(user)
-- A position does not move over messages that are no longer kept: the reader must be
-- told of the gap.
local position = id + (id + 1 >= c.first and own_run(own) or 0)
redis.call('ZREMRANGEBYSCORE', own, '-inf', position)
redis.call('ZADD', MEMBERS, position, user)
trim_acked(c)
save(c, 0)
if redis.call('ZCARD', MEMBERS) <= tonumber(most_told) then
  tell(channel, '~read ' .. c.epoch .. ' ' .. int(position) .. ' ' .. user)
end
return { 1, position }
