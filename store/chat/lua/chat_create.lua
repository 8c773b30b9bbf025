-- Makes a chat with its first members and, maybe, its first message.
-- KEYS: 1 meta (hash), 2 due (zset) of the bucket, 3 record (string) of the
--       idempotency key
-- ARGV: 1 most messages kept, 2 most age in ms, 3 epoch, which names the request
--       too, 4 digest of the body or '' for no record, 5 lifetime of the record
--       in ms, 6 first message or '', 7 1 when members should be told by push,
--       8.. member and stamp of his join in turn, the creator first; none: only
--       look, nothing is made
-- RETURNS: status 1 made, 2 made by an earlier request, 3 the key was used with
--          another body, 5 the chat exists, 6 it would be made; then after 1 and 2
--          the epoch
-- @include lua/part_chat.lua
-- @include lua/part_trim.lua
-- @include lua/part_append.lua
local RECORD, epoch, digest, ttl, text, push = KEYS[3], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7] == '1'
local first, CHUNK = 8, 200

local by, body = string.match(digest ~= '' and redis.call('GET', RECORD) or '', '^(%S+) (%S+)$')
if by then
  if body ~= digest then return { 3 } end
  return { by == epoch and 1 or 2, by }
end
local c = load()
if c then
  if c.epoch == epoch then return { 1, epoch } end
  return { 5 }
end
if not ARGV[first] then return { 6 } end
if digest ~= '' then redis.call('SET', RECORD, epoch .. ' ' .. digest, 'PX', ttl) end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', META, 'e', epoch, 'l', 0, 'f', 1, 'c', now, 't', now)
for from = first, #ARGV, CHUNK do
  local positions, joins = {}, {}
  for i = from, math.min(from + CHUNK, #ARGV) - 1, 2 do
    positions[i - from + 1], positions[i - from + 2] = 0, ARGV[i]
    joins[i - from + 1], joins[i - from + 2] = 0, ARGV[i] .. ' ' .. ARGV[i + 1]
    redis.call('PUBLISH', 'ff:live:user:' .. ARGV[i], '+' .. NAME)
  end
  redis.call('ZADD', MEMBERS, unpack(positions))
  redis.call('ZADD', JOINS, unpack(joins))
end
if text ~= '' then append(load(), ARGV[first], text, 0, push) end
return { 1, epoch }
