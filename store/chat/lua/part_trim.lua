-- Trimming one chat's log, after a change.
-- KEYS: none but those of part_chat.lua
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- trim_acked removes the messages that every member has acknowledged. No ids of own
-- messages are among them, because these are above their sender's position.
local function trim_acked(c)
  local first = tonumber(call('ZRANGE', MEMBERS, 0, 0, 'WITHSCORES')[2]) + 1
  c.first = max(c.first, first)
  if first > c.head then
    call('LTRIM', LOG, first - c.head, -1)
    c.head = first
  end
end

-- trim_limits removes messages over the limits, a few in each call and for each message
-- that is added. Messages that still have to be pushed stay, until the log is twice as long.
local function trim_limits(c, added)
  local upto = c.first
  if c.pushed and c.last - c.head < 2 * MOST + 1000 then upto = math.min(upto, c.pushed + 1) end
  local n = math.min(upto - c.head, POPPED * added)
  if n <= 0 then return end
  for i, entry in ipairs(call('LPOP', LOG, n)) do
    call('ZREM', own_of(match(entry, '^%d+ (%S+) ')), c.head + i - 1)
  end
  c.head = c.head + n
end

-- store writes the chat's meta, or adds key and text to unwritten, which a script for many
-- chats writes at its end.
local unwritten
local function store(c)
  local text = c.epoch .. ' ' .. int(c.last) .. ' ' .. int(c.first) .. ' ' .. int(c.at) .. ' ' .. int(c.made) .. ' ' ..
    (c.pushed and int(c.pushed) or '-') .. ' ' .. c.run .. ' ' .. (c.was or '-') .. ' ' .. int(c.since or 0)
  if not unwritten then return call('SET', META, text) end
  local n = #unwritten + 1
  unwritten[n], unwritten[n + 1] = META, text
end

-- save trims over the limits and writes the meta after a change, in which some messages
-- may have been added.
local function save(c, added)
  c.first = max(c.first, c.last + 1 - MOST)
  trim_limits(c, added or 1)
  store(c)
end
