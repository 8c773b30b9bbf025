-- Raises one contact's score in the indexes of users. Users without an index are skipped.
-- Running it twice is the same as once.
-- KEYS: 1.. of each user in turn recent (zset), state (hash)
-- ARGV: 1 contact, 2 score in ms, 3 most members, 4 how much longer recent
--       lives than state, in ms
-- RETURNS: how many of them have an index
-- @include lua/part_index.lua
local contact, score, max, margin = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local step, missing = 2, -2

local found = 0
for i = 1, #KEYS, step do
  recent, state = KEYS[i], KEYS[i + 1]
  local left = redis.call('PTTL', state)
  if left ~= missing then
    raise(contact, score, max, margin, left)
    found = found + 1
  end
end
return found
