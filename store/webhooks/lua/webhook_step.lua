-- Notes the answer of a webhook's receiver, and moves the position if the facts were taken or given up. A repeat changes
-- nothing but the time of the answer.
-- KEYS: 1 progress (hash)
-- ARGV: 1 position that the facts were read from, 2 position after them, or the same, 3 answer, or '' for none,
--       4 '1' the receiver has taken facts, '0' it has not, 5 facts that went unsent before these, 6 lifetime in ms, 7 replays
--       when the position was read
-- RETURNS: 1 done, 0 the position is another one, or was set by a replay: nothing was changed
-- @include lua/clock.lua
local progress = KEYS[1]
local from, to, answer, taken, gap, life, replays = unpack(ARGV)
local at = redis.call('HMGET', progress, 'pos', 'replays')
local now = at[1] or ''
if now ~= from and now ~= to or (at[2] or '0') ~= replays then return 0 end

local ms = int(math.floor(now_us() / 1000))
-- The first write takes no memory, so that a full Redis refuses none.
redis.call('PEXPIRE', progress, life)
if answer ~= '' then redis.call('HSET', progress, 'last', answer, 'at', ms) end
if taken == '1' then
  redis.call('HDEL', progress, 'since')
elseif answer ~= '' then
  redis.call('HSETNX', progress, 'since', ms)
end
if now ~= to then
  redis.call('HSET', progress, 'pos', to)
  if gap ~= '0' then redis.call('HINCRBY', progress, 'gap', gap) end
end
redis.call('PEXPIRE', progress, life)
return 1
