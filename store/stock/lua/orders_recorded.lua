-- Takes orders that are on record off the list of those that are not, and leaves a fact about each that was on it. Run again it
-- leaves none. Its first write is allowed in a Redis without memory. After that it does not touch the list, which may be gone.
-- KEYS: 1 sale, 2 orders (zset), 3 reservations (hash), then a key that never exists
-- ARGV: 1.. of each order three: its reservation, when it was sold in ms, data of the fact
-- RETURNS: {how many of the reservations are sold, how many facts were left}
local SALE, ORDERS, RESERVATIONS = KEYS[1], KEYS[2], KEYS[3]
-- @include lua/part_facts.lua
local STEP, ids, waiting, at, known = 3, {}, {}, {}, 0
for i = 1, #ARGV, STEP do
  local id = ARGV[i]
  ids[#ids + 1] = id
  if not at[id] and redis.call('ZSCORE', ORDERS, id) then waiting[#waiting + 1], at[id] = id, i end
end
for _, text in ipairs(redis.call('HMGET', RESERVATIONS, unpack(ids))) do
  if text and string.sub(text, 1, 2) == 's|' then known = known + 1 end
end
if #waiting > 0 then redis.call('ZREM', ORDERS, unpack(waiting)) end
for _, id in ipairs(waiting) do tell('order.created', id, ARGV[at[id] + 1], ARGV[at[id] + 2]) end
return { known, told }
