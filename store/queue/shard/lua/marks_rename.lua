-- Replaces the last word of marks of a job, which are words separated by blanks.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 id of the job, 2 the word, 3 the other word
-- RETURNS: how many marks had it
-- @include lua/part_shard.lua
local marks, word, other = P .. 'marks:' .. ARGV[1], ' ' .. ARGV[2], ' ' .. ARGV[3]
local found = 0
local all = redis.call('HGETALL', marks)
for i = 1, #all, 2 do
  local text = all[i + 1]
  if string.sub(text, -#word) == word then
    redis.call('HSET', marks, all[i], string.sub(text, 1, -#word - 1) .. other)
    found = found + 1
  end
end
return found
