-- Describes a shard.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: none
-- RETURNS: {entries waiting, blocked by a key, for later, claimed, retries so
--          far, dead letters, parked, age of the oldest entry in ms, leases
--          recovered so far, 1 somebody serves it, dead letters dropped so far}
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_text.lua
local ms = math.floor(now_us() / 1000)
local function stat(name)
  return tonumber(redis.call('HGET', STATS, name) or 0)
end
local waiting, claimed, oldest = 0, 0, 0
for _, stream in pairs(STREAM) do
  local n = redis.call('XLEN', stream)
  if n > 0 then
    local pending = redis.pcall('XPENDING', stream, 'g')[1] or 0 -- nobody has served it yet
    waiting, claimed = waiting + n - pending, claimed + pending
    local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
    local eid, text = first[1], first[2][2]
    if text ~= WAKE then oldest = math.max(oldest, ms - tonumber(dated(parse(text), eid).s)) end
  end
end
local parked = 0
-- bounded: names are apps and types
for _, n in ipairs(redis.call('HVALS', P .. 'parkedn')) do parked = parked + tonumber(n) end
return { waiting, stat('blocked'), stat('later'), claimed, stat('retries'), redis.call('XLEN', P .. 'dead'), parked,
  oldest, stat('recovered'), redis.call('EXISTS', P .. 'served'), stat('dropped') }
