-- Removes chats from a user's index, each only if it still has the given stamp.
-- KEYS: 1 index (zset)
-- ARGV: 1 least age in us, 2.. chat and stamp in turn
-- RETURNS: how many were removed
local index, age = KEYS[1], tonumber(ARGV[1])
local first, step = 2, 2

local time, dropped = redis.call('TIME'), 0
local now = time[1] * 1000000 + time[2]
for i = first, #ARGV - step + 1, step do
  local stamp = redis.call('ZSCORE', index, ARGV[i])
  if stamp and tonumber(stamp) == tonumber(ARGV[i + 1]) and now - tonumber(stamp) >= age then
    dropped = dropped + redis.call('ZREM', index, ARGV[i])
  end
end
return dropped
