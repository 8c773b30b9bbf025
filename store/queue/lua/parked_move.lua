-- Lets the oldest parked jobs of a name go on, in a bounded step.
-- KEYS: 1 the shard's live records
-- ARGV: 1 name, 2 most jobs
-- RETURNS: how many were moved
-- @include lua/record.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
local name, moved = ARGV[1], 0
for _, one in ipairs(redis.call('XRANGE', P .. 'parked:' .. name, '-', '+', 'COUNT', math.min(tonumber(ARGV[2]), 100))) do
  local e = unpark(name, one[1])
  local r = e and record_of(e.i)
  if r then admit(e, r, front(r)) end
  moved = moved + 1
end
save_records()
return moved
