-- Publishing to the streams of a chat.
-- KEYS: none but those of part_chat.lua
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- tell publishes a message. On a channel with a tag, as on a Cluster, it publishes only in
-- the slot, if the server can do that (from 7.0 on).
local function tell(channel, text)
  if string.find(channel, '{', 1, true) and type(redis.pcall('SPUBLISH', channel, text)) == 'number' then return end
  redis.pcall('PUBLISH', channel, text)
end
