-- Writes the state of some contacts in SQL, unless there was another change of a relationship
-- between the read of SQL and this write. A repeat of the same call finds its own change
-- and answers 2.
-- KEYS: 1 recent (zset), 2 state (hash)
-- ARGV: 1 relations counter before SQL was read, 2 most members, 3 how much longer
--       recent lives than state, in ms, 4.. contact and score in ms in turn ('' if
--       the user is not a contact, or has no visible upload)
-- RETURNS: status 0 there is no index, 1 written, 2 read SQL again; then after 1
--          the members above the floor and 1 when there is a floor
-- @include lua/part_index.lua
local relations, max, margin = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local first, step = 4, 2

local now = redis.call('HGET', state, 'r')
if not now then
  return { 0 }
end
if now ~= relations then
  return { 2 }
end
redis.call('HINCRBY', state, 'r', 1)
for i = first, #ARGV - step + 1, step do
  local contact, score = ARGV[i], ARGV[i + 1]
  if score == '' then
    redis.call('ZREM', recent, contact)
    unname(contact)
    redis.call('HINCRBY', state, 'q', 1)
  else
    raise(contact, score, max, margin)
  end
end
local floor = redis.call('HGET', state, 'fs')
if not floor then
  return { 1, redis.call('ZCARD', recent), 0 }
end
return { 1, redis.call('ZCOUNT', recent, '(' .. floor, '+inf'), 1 }
