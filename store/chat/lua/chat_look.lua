-- Looks at a chat, and at one user in it.
-- KEYS: 1 meta (hash), 2 due (zset) of the bucket
-- ARGV: 1 most messages kept, 2 most age in ms, 3 user or ''
-- RETURNS: status 0 no such chat, 1 there is; then after 1 epoch, last and first
--          id, number of members, made at in ms, stamp of the user's join or ''
-- @include lua/part_chat.lua
local user = ARGV[3]

local c = load()
if not c then return { 0 } end
local join = user ~= '' and join_of(user)
return { 1, c.epoch, c.last, c.first, redis.call('ZCARD', MEMBERS), tonumber(redis.call('HGET', META, 'c')), join and join.stamp or '' }
