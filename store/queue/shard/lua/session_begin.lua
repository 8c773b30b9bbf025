-- Begins a process' session on a shard and makes the groups that an emptied Redis lost.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 random part of its name, 2 lease in ms
-- RETURNS: the session: the random part and its epoch, which is above every earlier
--          one and, because of the clock, above those that Redis forgot
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_session.lua
redis.call('DEL', NEVER) -- a script whose first write frees memory is not refused by a full Redis
local us = now_us()
local epoch = int(math.max(us, tonumber(redis.call('GET', P .. 'epoch') or 0) + 1))
for _, stream in pairs(STREAM) do
  redis.pcall('XGROUP', 'CREATE', stream, 'g', '0', 'MKSTREAM') -- it may exist
end
redis.call('SET', P .. 'epoch', epoch)
redis.call('ZADD', OWNERS, int(math.floor(us / 1000) + IDLE * tonumber(ARGV[2])), ARGV[1] .. '-' .. epoch)
return ARGV[1] .. '-' .. epoch
