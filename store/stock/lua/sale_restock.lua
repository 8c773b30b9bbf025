-- Adds to the total of a sku or takes away, in the first partition. Run again by
-- the same request it answers the same.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 totals (hash),
--       6 idempotency record (string), 7 out (hash), 8 restocks not on record (hash), then a key that never exists
-- ARGV: 1 run (see run_id), 2 lifetime of the idempotency record in ms,
--       3 condition (see matches), 4 digest of the body, 5 id of this request, 6 most due
--       holds to return, 7 channel for the new version, 8 sku, 9 delta,
--       10 largest total, 11 held, 12 sold, both in the other partitions, 13 what is told (see tell_of)
-- RETURNS: {1 done, version, total, held, sold, the partition as state gives it},
--          {2 replayed, the first answer, the partition as it is now},
--          {3 other body}, {4, 5, 6 as unusable}, {7 the version differs},
--          {8 unknown sku}, {9 the total would be below the units held and sold}, {10 not
--          enough is available here, version, sku and units needed}, {11 too large}, {13 more
--          holds are due: call again}
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
-- @include lua/part_told.lua
-- @include lua/part_state.lua
-- @include lua/match.lua
local TOTALS, ONCE, OUT, RESTOCKS = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local run, ttl, condition, digest, request, bound, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7]
local sku, delta, largest = ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])

local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'partitions')
local why = unusable(s[1], s[2], s[3], run)
if why then return { why } end
local old = redis.call('GET', ONCE)
if old then
  if string.sub(old, 1, #digest) ~= digest then return { 3 } end
  local status = string.sub(old, #digest + 1, #digest + #request) == request and 1 or 2
  local v, total, held, sold = string.match(string.sub(old, #digest + #request + 1), '^ (%d+) (%d+) (%d+) (%d+)$')
  return { status, v, total, held, sold, state(run, TOTALS, OUT) }
end
if not matches(condition, s[1]) then return { 7 } end
local total = tonumber(redis.call('HGET', TOTALS, sku) or -1)
if total < 0 then return { 8 } end
if delta > largest - total then return { 11 } end

local now = now_ms()
tell_of(ARGV[13])
load_stock({ sku })
local low = low_skus()
local more = return_due(now, bound) == bound
local t = stock_of(sku)
if delta < 0 and t.a < -delta then
  save()
  if more then return { 13 } end
  if s[4] == '1' then return { 9 } end
  return { 10, s[1], sku, int(-delta) }
end
if delta < 0 then take(t, -delta) else give(t, delta) end
save()
tell_low(low, now)
local version = s[1]
if delta ~= 0 then
  redis.call('HSET', TOTALS, sku, int(total + delta))
  version = int(redis.call('HINCRBY', SALE, 'version', 1))
  redis.pcall('PUBLISH', channel, version)
end
local held, sold = int(t.h + tonumber(ARGV[11])), int(t.s + tonumber(ARGV[12]))
local answer = { 1, version, int(total + delta), held, sold }
local text = digest .. request .. ' ' .. table.concat(answer, ' ', 2)
redis.call('SET', ONCE, text, 'PX', ttl)
if delta ~= 0 then redis.call('HSET', RESTOCKS, string.match(ONCE, '[^:]+$'), int(now + ttl) .. ' ' .. text) end
answer[#answer + 1] = state(run, TOTALS, OUT)
return answer
