-- Trimming one chat's log, after a change.
-- KEYS: none but those of part_chat.lua
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- How many messages leave for each one that comes: those that readers no longer see, and those
-- over the bytes.
local HIDDEN_EACH, HEAVY_EACH = 32, 100

-- pop removes the n oldest messages of the log, and returns them.
local function pop(c, n)
  local gone = call('LPOP', LOG, n)
  c.head, c.bytes = c.head + n, c.bytes and c.bytes - weigh(gone)
  return gone
end

-- trim_acked removes the messages that every member has acknowledged. No ids of own
-- messages are among them, because these are above their sender's position.
local function trim_acked(c)
  local first = tonumber(call('ZRANGE', MEMBERS, 0, 0, 'WITHSCORES')[2]) + 1
  c.first = max(c.first, first)
  if first > c.last then
    call('UNLINK', LOG)
    c.head, c.bytes = first, 0
  end
  for left = first - c.head, 1, -HEAVY_EACH do pop(c, math.min(HEAVY_EACH, left)) end
end

-- trim_limits removes messages over the limits, a few for each message that comes. The oldest
-- ones leave, whether readers still see them or not, as long as the log has too many bytes.
-- Messages that still have to be pushed stay, until the log is twice as large.
local function trim_limits(c, added)
  for i = 1, HEAVY_EACH * max(added, 1) do
    local bytes = c.bytes or 0
    local hidden = c.head < c.first and i <= HIDDEN_EACH * max(added, 1)
    local heavy = bytes > BYTES and c.head < c.last and i <= HEAVY_EACH * added
    local due = c.pushed and c.head > c.pushed and c.last - c.head < 2 * MOST + 1000 and bytes <= 2 * BYTES
    if due or not (hidden or heavy) then break end
    local id = c.head
    call('ZREM', own_of(match(pop(c, 1)[1], '^%d+ (%S+) ')), id)
  end
  c.first = max(c.first, c.head)
end

-- store writes the chat's meta, or adds key and text to unwritten, which a script for many
-- chats writes at its end.
local unwritten
local function store(c)
  local text = c.epoch .. ' ' .. int(c.last) .. ' ' .. int(c.first) .. ' ' .. int(c.at) .. ' ' .. int(c.made) .. ' ' ..
    (c.pushed and int(c.pushed) or '-') .. ' ' .. c.run .. ' ' .. (c.was or '-') .. ' ' .. int(c.since or 0) .. ' ' .. (c.bytes and int(c.bytes) or '')
  if not unwritten then return call('SET', META, text) end
  local n = #unwritten + 1
  unwritten[n], unwritten[n + 1] = META, text
end

-- save trims over the limits and writes the meta after a change that added some messages, or
-- none.
local function save(c, added)
  c.first = max(c.first, c.last + 1 - MOST)
  trim_limits(c, added)
  store(c)
end
