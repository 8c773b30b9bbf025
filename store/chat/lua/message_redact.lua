-- Removes text and data of messages from the log, and publishes that. Id, sender and time stay.
-- Messages that readers no longer see, but that are still in the log, lose theirs as well.
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 sender whose messages alone are redacted, or '' for all, 2 user who must be a member, or
--       '', 3 first id, 4 last id, 5 most messages to look at, 6 channel of messages, after those
--       of part_chat.lua
-- RETURNS: status 0 no such chat, 1 done, 4 the user is no member; then after 1 epoch, first id that
--          readers see, how many messages of other senders readers see among these, and the id
--          and the time in ms of each message that has no text now
-- @include lua/part_chat.lua
-- @include lua/part_trim.lua
-- @include lua/part_tell.lua
local sender, member, from, to, most, channel = unpack(ARGV, OWN)

local c = load()
if not c then return { 0 } end
if member ~= '' and not redis.call('ZSCORE', MEMBERS, member) then return { 4 } end
from = math.max(tonumber(from), c.head)
to = math.min(tonumber(to), c.last, from + tonumber(most) - 1)
local others, redacted, bytes = 0, {}, c.bytes
-- bounded: by most
for i, entry in ipairs(from <= to and redis.call('LRANGE', LOG, from - c.head, to - c.head) or {}) do
  local id = from + i - 1
  local head, at, by = string.match(entry, '^((%d+) (%S+) )')
  if sender ~= '' and by ~= sender then
    if id >= c.first then others = others + 1 end
  else
    if #entry > #head then
      redis.call('ZREM', DUE, '') -- the first write: no full Redis refuses it, nor the writes after it
      redis.call('LSET', LOG, id - c.head, head)
      c.bytes = c.bytes and c.bytes - weigh({ entry })
      tell(channel, c.epoch .. ' ' .. int(id) .. ' ' .. head)
    end
    redacted[#redacted + 1] = id
    redacted[#redacted + 1] = tonumber(at)
  end
end
if c.bytes ~= bytes then store(c) end
return { 1, c.epoch, c.first, others, redacted }
