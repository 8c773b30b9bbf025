-- Replaces marks of a job that are still as they were read.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 id of the job, 2 number of values, which follow: for each mark its name, what was
--       read, and the new text
-- RETURNS: how many marks were replaced
-- @include lua/part_shard.lua
local marks, found = P .. 'marks:' .. ARGV[1], 0
for i = 3, 2 + tonumber(ARGV[2]), 3 do
  if redis.call('HGET', marks, ARGV[i]) == ARGV[i + 1] then
    redis.call('HSET', marks, ARGV[i], ARGV[i + 2])
    found = found + 1
  end
end
return found
