-- Lets the oldest parked jobs of a name go on, in a bounded step.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 name, 2 most jobs
-- RETURNS: {how many were moved, bytes that the shard's parked jobs take or -1}
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_text.lua
-- @include lua/part_stream.lua
-- @include lua/part_admit.lua
-- @include lua/part_parked_bytes.lua
local name, ms, bytes = ARGV[1], math.floor(now_us() / 1000), -1
local parked = P .. 'parked:' .. name
local moved = redis.call('XRANGE', parked, '-', '+', 'COUNT', math.min(tonumber(ARGV[2]), 100))
if #moved == 0 then return { 0, -1 } end -- a full Redis would refuse to write the count
for _, one in ipairs(moved) do
  local eid, text = one[1], one[2][2]
  redis.call('XDEL', parked, eid)
  bytes = count_parked(text, -1)
  local e = dated(parse(text), eid)
  admit(e, front(e), ms)
end
if redis.call('HINCRBY', P .. 'parkedn', name, 0 - #moved) <= 0 then
  redis.call('HDEL', P .. 'parkedn', name)
  redis.call('DEL', parked)
end
return { #moved, bytes }
