-- Leaving facts about messages for the relay (store/facts).
-- KEYS: none but those of part_chat.lua
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local P -- begins the keys of the chat's bucket
-- @include lua/fact_leave.lua

-- leave_messages leaves a fact about each of the newest messages, whose senders are given. Identifiers need no escapes.
local function leave_messages(c, senders)
  P = BUCKET
  local at, before, first = int(c.at), '{"chat":"' .. NAME .. '","id":', c.last - #senders
  for i, sender in ipairs(senders) do
    leave_fact('chat.message', NAME, at, before .. int(first + i) .. ',"sender":"' .. sender .. '"}')
  end
end
