-- Reads a member's position in a chat and, if some messages are unread, all messages above
-- the position. It changes nothing.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 user, 2 most messages, 3 most bytes of them, of which the first may
--       have more, after those of part_chat.lua
-- RETURNS: status 0 no such chat, 1 read, 4 the user is no member; then after 1
--          epoch, last and first id, the user's position, how many are unread,
--          id of the first message returned, the messages as the log has them, the
--          epoch before this run of the server, and the last id that the run found
-- @include lua/part_chat.lua
-- @include lua/part_page.lua
local user, limit, budget = unpack(ARGV, OWN)
limit, budget = tonumber(limit), tonumber(budget)

local c = load()
if not c then return { 0 } end
local acked = redis.call('ZSCORE', MEMBERS, user)
if not acked then return { 4 } end
acked = tonumber(acked)
local new = unread(c, user, acked)
local from = math.max(acked + 1, c.first)
local to = new > 0 and math.min(c.last, from + limit - 1) or 0
local items = oldest_within(c, from, to, budget)
return { 1, c.epoch, c.last, c.first, acked, new, from, items, c.was, c.since }
