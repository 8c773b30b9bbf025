-- Tells the streams of a chat that a member types. It stores nothing.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 user, 2 channel of messages, 3 most members of a chat whose streams are told, after
--       those of part_chat.lua
-- RETURNS: status 0 no such chat, 1 done, 4 the user is no member
-- @include lua/part_chat.lua
-- @include lua/part_tell.lua
local user, channel, most_told = unpack(ARGV, OWN)

local c = load()
if not c then return { 0 } end
if not redis.call('ZSCORE', MEMBERS, user) then return { 4 } end
if redis.call('ZCARD', MEMBERS) <= tonumber(most_told) then tell(channel, '~typing ' .. c.epoch .. ' 0 ' .. user) end
return { 1 }
