-- Raises one contact's score in one user's index, if there is an index. Running
-- it twice is the same as once.
-- KEYS: 1 recent (zset), 2 state (hash)
-- ARGV: 1 contact, 2 score in ms, 3 most members, 4 how much longer recent
--       lives than state, in ms
-- RETURNS: 0 there is no index, 1 raised, 2 was as high already
-- @include lua/part_index.lua
local contact, score, max, margin = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

if redis.call('EXISTS', state) == 0 then
  return 0
end
if raise(contact, score, max, margin) then
  return 1
end
return 2
