-- Reading messages of one chat's log up to a number of bytes, as the log has them. JSON may
-- write more: the caller counts that, because looking at each character here would take Redis
-- six times as long.
-- KEYS: none but those of part_chat.lua
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local CHUNK = 16

-- oldest_within reads the messages from one id to another, oldest first. It stops before the
-- message that would exceed the budget, but reads at least one.
local function oldest_within(c, from, to, budget)
  local items, bytes = {}, 0
  for start = from, to, CHUNK do
    for _, entry in ipairs(call('LRANGE', LOG, start - c.head, math.min(to, start + CHUNK - 1) - c.head)) do
      bytes = bytes + #entry
      if bytes > budget and #items > 0 then return items end
      items[#items + 1] = entry
    end
  end
  return items
end

local function reversed(list)
  local out, n = {}, #list
  for i = 1, n do out[i] = list[n + 1 - i] end
  return out
end

-- newest_within reads backwards from the second id, and returns the messages oldest first.
local function newest_within(c, from, to, budget)
  local found, bytes = {}, 0
  for stop = to, from, -CHUNK do
    local start = math.max(from, stop - CHUNK + 1)
    local chunk = call('LRANGE', LOG, start - c.head, stop - c.head)
    for i = #chunk, 1, -1 do
      bytes = bytes + #chunk[i]
      if bytes > budget and #found > 0 then return reversed(found) end
      found[#found + 1] = chunk[i]
    end
  end
  return reversed(found)
end
