-- Adds a message to a chat, once for each record.
-- KEYS: 1 meta (hash), 2 due (zset) of the bucket, 3 record (string) of the
--       request or of its idempotency key
-- ARGV: 1 most messages kept, 2 most age in ms, 3 sender, 4 text, 5 request id,
--       6 digest of the body or '-', 7 lifetime of the record in ms, 8 1 when
--       members should be told by push
-- RETURNS: status 0 no such chat, 1 sent, 2 sent by an earlier request, 3 the
--          key was used with another body, 4 the sender is no member; then after
--          1 and 2 the message's id and time in ms
-- @include lua/part_chat.lua
-- @include lua/part_trim.lua
-- @include lua/part_append.lua
local RECORD, sender, text, request, digest, ttl, push = KEYS[3], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8] == '1'

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
append(c, sender, text, tonumber(acked), push)
return { 1, id, at }
