-- Replaces a word in the items of an attachment, which are words separated by blanks.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 id of the job, 2 the word, 3 the other word
-- RETURNS: how many items had it
-- @include lua/part_shard.lua
local attachment, word, other, ITEMS = P .. 'attach:' .. ARGV[1], ARGV[2], ARGV[3], 1000
local found = 0
-- bounded: by ITEMS
for i, item in ipairs(redis.call('LRANGE', attachment, 0, ITEMS - 1)) do
  local padded = ' ' .. item .. ' '
  local from, to = string.find(padded, ' ' .. word .. ' ', 1, true)
  if from then
    redis.call('LSET', attachment, i - 1, string.sub(padded, 2, from) .. other .. string.sub(padded, to, -2))
    found = found + 1
  end
end
return found
