-- Takes orders that are on record off the list of those that are not, and leaves a fact about each that was on it. Run again it
-- leaves none. Its first write is allowed in a Redis without memory.
-- KEYS: 1 sale, 2 orders (zset), 3 reservations (hash)
-- ARGV: 1.. of each order three: its reservation, when it was sold in ms, data of the fact
-- RETURNS: {how many of the reservations are sold, how many facts were left}
local SALE, ORDERS, RESERVATIONS = KEYS[1], KEYS[2], KEYS[3]
-- @include lua/part_facts.lua
local STEP, ids, known = 3, {}, 0
for i = 1, #ARGV, STEP do
  ids[#ids + 1] = ARGV[i]
  if redis.call('ZREM', ORDERS, ARGV[i]) == 1 then tell('order.created', ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
end
for _, text in ipairs(redis.call('HMGET', RESERVATIONS, unpack(ids))) do
  if text and string.sub(text, 1, 2) == 's|' then known = known + 1 end
end
return { known, told }
