-- Lists members by name.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 name after which or '', 2 most members, 3 the caller, who must be a member, or '',
--       after those of part_chat.lua
-- RETURNS: status 0 no such chat, 1 listed, 4 the caller is no member; then after 1 of
--          each "<name> <stamp>", maybe with the stamp of the join itself behind, and
--          the positions
-- @include lua/part_chat.lua
local after, limit, member = unpack(ARGV, OWN)

if not load() then return { 0 } end
if member ~= '' and not redis.call('ZSCORE', MEMBERS, member) then return { 4 } end
local from = after == '' and '-' or '(' .. after .. '!'
local joins = redis.call('ZRANGEBYLEX', JOINS, from, '+', 'LIMIT', 0, limit)
local positions = {}
for i, join in ipairs(joins) do
  positions[i] = tonumber(redis.call('ZSCORE', MEMBERS, string.match(join, '^%S+')))
end
return { 1, joins, positions }
