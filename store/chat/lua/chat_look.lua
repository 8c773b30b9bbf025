-- Looks at a chat, and at one user in it.
-- KEYS: 1 meta (hash), 2 due (zset) of the bucket
-- ARGV: 1 most messages kept, 2 most age in ms, 3 user or ''
-- RETURNS: status 0 no such chat, 1 there is; then after 1 epoch, last and first
--          id, number of members, made at in ms; then for a member the stamp that
--          his index should have, that of his join, and his position
-- @include lua/part_chat.lua
local user = ARGV[3]

local c = load()
if not c then return { 0 } end
local out = { 1, c.epoch, c.last, c.first, redis.call('ZCARD', MEMBERS), tonumber(redis.call('HGET', META, 'c')) }
local join = user ~= '' and join_of(user)
if join then
  out[7], out[8], out[9] = join.stamp, join.made, tonumber(redis.call('ZSCORE', MEMBERS, user))
end
return out
