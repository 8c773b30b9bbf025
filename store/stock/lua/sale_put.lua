-- Makes or changes a sale, if the condition holds, in its first partition, which
-- decides: version, settings, totals, and the stock that more or less of a total
-- means. Run again by the same request it answers the same.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 totals (hash),
--       6 the result of this request (string), 7 out (hash), then a key that never exists
-- ARGV: 1 run (see run_id), 2 lifetime of the request in ms, 3 condition
--       (see matches), 4 1 to make one
--       that is not there, 5 most due holds to return,
--       6 channel for the new version, 7 what is told (see tell_of), 8 starts, 9 ends, 10 limit, 11 hold,
--       12 idle, 13 partitions, 14 max_hold, 15 lows, 16.. sku and total in turn
-- RETURNS: {1 done, 0 unchanged, 1 made or 2 changed, the partition as state gives it},
--          {4, 5, 6 as unusable}, {7 the condition does not hold}, {8 the sale differs and
--          there is no condition}, {9 a sku is missing, partitions differ, or a total is below
--          the units held and sold}, {10 not enough is available here, version, then sku and
--          units needed in turn}, {13 more holds are due: call again}
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
-- @include lua/part_told.lua
-- @include lua/part_state.lua
-- @include lua/part_settings.lua
-- @include lua/match.lua
local TOTALS, REQUEST, OUT = KEYS[5], KEYS[6], KEYS[7]
local run, ttl, condition, new, bound, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', tonumber(ARGV[5]), ARGV[6]
local at, first, step = 8, 16, 2

local before = redis.call('GET', REQUEST)
if before then return { 1, tonumber(before), state(run, TOTALS, OUT) } end
local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'partitions')
local version = s[1]
local why = unusable(version, s[2], s[3], run)
if why and not (why == 4 and new) then return { why } end
if not matches(condition, version) then return { 7 } end

local now, what, known = now_ms(), 1, 0
local this = run_id(run) -- before anything is written, because a user of Redis may lack the right to INFO
local changes, missing, skus = {}, {}, {}
tell_of(ARGV[7])
for i = first, #ARGV - 1, step do skus[#skus + 1] = ARGV[i] end
load_stock(skus)
local low = low_skus()
if version then
  what = same_settings(at) and 0 or 2
  for i = first, #ARGV - 1, step do
    local old = redis.call('HGET', TOTALS, ARGV[i])
    known = known + (old and 1 or 0)
    if old ~= ARGV[i + 1] then what = 2 end
    changes[ARGV[i]] = tonumber(ARGV[i + 1]) - tonumber(old or 0)
  end
  if known < redis.call('HLEN', TOTALS) then what = 2 end
  if what == 0 then return { 1, 0, state(run, TOTALS, OUT) } end
  if condition == '' then return { 8 } end
  if known < redis.call('HLEN', TOTALS) or s[4] ~= ARGV[13] then return { 9 } end
  local more = return_due(now, bound) == bound
  for sku, change in pairs(changes) do
    if -change > stock_of(sku).a then missing[#missing + 1], missing[#missing + 2] = sku, int(-change) end
  end
  if #missing > 0 then
    save()
    if more then return { 13 } end
    return { s[4] == '1' and 9 or 10, version, unpack(missing) }
  end
end
for i = first, #ARGV - 1, step do
  local change = changes[ARGV[i]] or tonumber(ARGV[i + 1])
  local t = stock_of(ARGV[i])
  if change < 0 then take(t, -change) else give(t, change) end
  redis.call('HSET', TOTALS, ARGV[i], ARGV[i + 1])
end
save()
version = redis.call('HINCRBY', SALE, 'version', 1)
write_settings(at, first, step)
redis.call('HSET', SALE, 'run_id', this, 'used', int(now))
tell_low(low, now)
if what == 1 then redis.call('HSET', SALE, 'loading', string.match(REQUEST, '[^:]+$')) end
redis.call('SET', REQUEST, int(what), 'PX', ttl)
redis.pcall('PUBLISH', channel, int(version))
return { 1, what, state(run, TOTALS, OUT) }
