-- Reads a chat and the membership of one user. It changes nothing.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 user or '', after those of part_chat.lua
-- RETURNS: status 0 no such chat, 1 there is; then after 1 epoch, last and first
--          id, number of members, made at in ms, and a list: for a member the
--          stamp that the index should have, the stamp of the join, and the position;
--          for others empty
-- @include lua/part_chat.lua
local user = unpack(ARGV, OWN)

local c = load()
if not c then return { 0 } end
local join, member = user ~= '' and join_of(user), {}
if join then member = { join.stamp, join.made, tonumber(redis.call('ZSCORE', MEMBERS, user)) } end
return { 1, c.epoch, c.last, c.first, redis.call('ZCARD', MEMBERS), c.made, member }
