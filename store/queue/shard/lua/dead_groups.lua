-- Counts dead letters by reason and class: all, or those up to an id.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 most letters to count in this call, 2 id of the first letter that is left out, or ''
-- RETURNS: {1 some may be left to count, 2 too many are to be left out, or 0; dead letters; group, its
--          count, and so on}
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_dead.lua
redis.call('DEL', NEVER) -- a script whose first write frees memory is not refused by a full Redis
local step, from = tonumber(ARGV[1]), ARGV[2]
local more = count_dead(math.floor(now_us() / 1000), step)
-- bounded: a shard tells at most 1,000 groups apart
local counts, less = redis.call('HGETALL', DEADN), {}
if more then return { 1, redis.call('XLEN', DEAD), counts } end
local newer = from ~= '' and redis.call('XRANGE', DEAD, from, '+', 'COUNT', step) or {}
if #newer == step then return { 2, 0, {} } end
for _, one in ipairs(newer) do
  local group = group_of(one[2])
  if redis.call('HEXISTS', DEADN, group) == 0 then group = REST end
  less[group] = (less[group] or 0) + 1
end
for i = 1, #counts, 2 do
  local n = less[counts[i]]
  if n then counts[i + 1] = int(tonumber(counts[i + 1]) - n) end
end
return { 0, redis.call('XLEN', DEAD) - #newer, counts }
