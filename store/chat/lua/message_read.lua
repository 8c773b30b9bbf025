-- Reads messages of a chat for a member. It changes nothing.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 user, 2 id after which or '', 3 id before which or '', 4 most messages,
--       5 most bytes of them, of which the first one read may have more, after those
--       of part_chat.lua
-- RETURNS: status 0 no such chat, 1 read, 4 the user is no member; then after 1
--          epoch, last and first id, id of the first message returned, the
--          messages as the log has them, the epoch before this run of the server, and
--          the last id that the run found
-- @include lua/part_chat.lua
-- @include lua/part_page.lua
local user, after, before, limit, budget = unpack(ARGV, OWN)
after, before, limit, budget = tonumber(after), tonumber(before), tonumber(limit), tonumber(budget)

local c = load()
if not c then return { 0 } end
if not redis.call('ZSCORE', MEMBERS, user) then return { 4 } end
local from, to = c.first, c.last
if after then from = math.max(from, after + 1) end
if before then
  to = math.min(to, before - 1)
  from = math.max(from, to - limit + 1)
else
  to = math.min(to, from + limit - 1)
end
local items
if before then
  items = newest_within(c, from, to, budget)
  from = to - #items + 1
else
  items = oldest_within(c, from, to, budget)
end
return { 1, c.epoch, c.last, c.first, from, items, c.was, c.since }
