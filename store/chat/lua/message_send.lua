-- Adds a message to a chat, once for each record.
-- KEYS: 1 meta (hash), 2 due (zset) of the bucket, 3 record (string) of the
--       request or of its idempotency key
-- ARGV: 1 sender, 2 text, 3 request id, 4 digest of the body or '-', 5 lifetime of
--       the record in ms, 6 channel of messages, 7 1 when the message should be
--       pushed, after those of part_chat.lua
-- RETURNS: status 0 no such chat, 1 sent, 2 sent by an earlier request, 3 the
--          key was used with another body, 4 the sender is no member; then after
--          1 and 2 the message's id and time in ms
-- @include lua/part_chat.lua
-- @include lua/part_trim.lua
-- @include lua/part_append.lua
local RECORD = KEYS[3]
local sender, text, request, digest, ttl, channel, push = unpack(ARGV, OWN)

-- replay answers from the record, nil when it is of another life of the chat.
local function replay(c)
  local epoch, id, at, by, body = string.match(redis.call('GET', RECORD) or '', '^(%S+) (%d+) (%d+) (%S+) (%S+)$')
  if epoch ~= c.epoch then return nil end
  if body ~= digest then return { 3 } end
  return { by == request and 1 or 2, tonumber(id), tonumber(at) }
end

local c = load()
if not c then return { 0 } end
local acked = redis.call('ZSCORE', MEMBERS, sender)
if not acked then return replay(c) or { 4 } end
local id, at = c.last + 1, math.max(c.now, c.at)
local record = c.epoch .. ' ' .. int(id) .. ' ' .. at .. ' ' .. request .. ' ' .. digest
if not redis.call('SET', RECORD, record, 'PX', ttl, 'NX') then
  local before = replay(c)
  if before then return before end
  redis.call('SET', RECORD, record, 'PX', ttl)
end
append(c, { sender = sender, acked = tonumber(acked), text = text, channel = channel, push = push == '1' })
return { 1, id, at }
