-- Removes the consumers that processes left behind when they crashed: those
-- without a pending entry that have shown no sign of life for long. A consumer
-- that is removed by mistake is made again by its next read.
-- KEYS: 1 the shard's live records
-- ARGV: 1 ms without a sign of life, 2 most consumers to remove
-- RETURNS: how many were removed
-- @include lua/record.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
local idle, most, gone = tonumber(ARGV[1]), tonumber(ARGV[2]), 0

local function told(info, name)
  for i = 1, #info, 2 do
    if info[i] == name then return info[i + 1] end
  end
end

local function sweep(stream)
  for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', stream, 'g')) do
    if gone >= most then return end
    local name = told(info, 'name')
    if told(info, 'pending') == 0 and told(info, 'idle') >= idle
      and #redis.call('XPENDING', stream, 'g', '-', '+', 1, name) == 0 then
      redis.call('XGROUP', 'DELCONSUMER', stream, 'g', name)
      gone = gone + 1
    end
  end
end

for _, letter in ipairs({ 'm', 'r', 'a' }) do sweep(STREAM[letter]) end
return gone
