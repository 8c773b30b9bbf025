-- Lets the oldest parked jobs of a name go on, in a bounded step.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 name, 2 most jobs
-- RETURNS: {how many were moved, bytes that the shard's parked jobs take or -1}
-- @include lua/clock.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
-- @include lua/part_places.lua
local name, moved, ms = ARGV[1], 0, math.floor(now_us() / 1000)
for _, one in ipairs(redis.call('XRANGE', P .. 'parked:' .. name, '-', '+', 'COUNT', math.min(tonumber(ARGV[2]), 100))) do
  local e = unpark(name, one[1])
  if e then admit(e, front(e), ms) end
  moved = moved + 1
end
save_records()
return { moved, parked_bytes }
