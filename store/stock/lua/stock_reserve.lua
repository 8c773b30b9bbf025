-- Reserves all lines for a user or none: one step for the replay, the window,
-- the user's limit, the holds that are due, the stock and the records. Run again
-- with the same id it answers the same. A refusal changes nothing but returning
-- due holds.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 orders (zset), then
--       the idempotency record, if one is wanted
-- ARGV: 1 run (see run_id), 2 partitions of the sale, 3 user, 4 id of the reservation,
--       5 digest of the body, 6 lifetime of the idempotency record in ms,
--       7 most due holds to return, 8.. sku and units in turn
-- RETURNS: {1 made, version, end of the hold in ms or '0': sold, when in ms},
--          {2 replayed, version, id and end of the hold of the first answer},
--          {3 other body}, {4, 5, 6 as unusable}, {7 not so many partitions},
--          {8 unknown sku, version, which line},
--          {9 not started, version, ms until then},
--          {10 ended, version, 1 because it was idle},
--          {11 the user's limit, version, units that remain},
--          {12 not enough, version, ms to the next due hold or -1, available of each line},
--          {13 more holds are due: call again}
-- @include lua/part_sale.lua
local ORDERS, ONCE = KEYS[5], KEYS[6]
local run, partitions, user, id, digest, ttl, bound = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local first, step = 8, 2

local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'terms', 'used')
local version = s[1]
local why = unusable(version, s[2], s[3], run)
if why then return { why } end
local starts, ends, limit, hold, idle, spread = string.match(s[4], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
starts, ends, limit, hold, idle = tonumber(starts), tonumber(ends), tonumber(limit), tonumber(hold), tonumber(idle)
if spread ~= partitions then return { 7 } end

local old = ONCE and redis.call('GET', ONCE)
if old then
  if string.sub(old, 1, #digest) ~= digest then return { 3 } end
  if string.sub(old, #digest + 1, #digest + #id) ~= id then return { 2, version, string.sub(old, #digest + 1) } end
end
local known = redis.call('HMGET', RESERVATIONS, id, 'u:' .. user)
local mine = parse(known[1])
if mine then return { 1, version, mine.expires, tonumber(mine.created) } end

local skus, units, text = {}, 0, {}
for i = first, #ARGV - 1, step do
  skus[#skus + 1], units = ARGV[i], units + tonumber(ARGV[i + 1])
  text[#text + 1] = ARGV[i] .. '=' .. ARGV[i + 1]
end
load_stock(skus)
for i, sku in ipairs(skus) do
  if not tuples[sku] then return { 8, version, i } end
end
local now = now_ms()
local used = tonumber(s[5] or 0)
if now < starts then return { 9, version, starts - now } end
if now >= ends then return { 10, version, 0 } end
if idle > 0 and now >= math.max(starts, used) + idle then return { 10, version, 1 } end

local function refused()
  local had, last = units_of(user, known[2])
  if limit > 0 and had + units > limit then return 11, had end
  for i, sku in ipairs(skus) do
    if tuples[sku].a < tonumber(ARGV[first + step * i - 1]) then return 12 end
  end
  return nil, had, last
end
local status, had, last = refused()
if status then
-- @include lua/part_due.lua
  local more = return_due(now, bound)
  if more > 0 then status, had, last = refused() end
  if status then
    save()
    if more == bound then return { 13 } end
    if status == 11 then return { 11, version, int(math.max(limit - had, 0)) } end
    local answer = { 12, version, next_due(now) }
    for _, sku in ipairs(skus) do answer[#answer + 1] = int(tuples[sku].a) end
    return answer
  end
end

for i, sku in ipairs(skus) do
  local t, n = stock_of(sku), tonumber(ARGV[first + step * i - 1])
  t.a = t.a - n
  if hold > 0 then t.h = t.h + n else t.s = t.s + n end
end
local at, expires = int(now), hold > 0 and int(now + hold) or '0'
store(id, { state = hold > 0 and 'h' or 's', user = user, created = at, expires = expires, ended = hold > 0 and '0' or at, prev = last, lines = table.concat(text, ',') })
set_units(user, had + units, id)
save()
if hold > 0 then redis.call('ZADD', DUE, expires, id) else redis.call('ZADD', ORDERS, at, id) end
if idle > 0 then redis.call('HSET', SALE, 'used', at) end
if ONCE then redis.call('SET', ONCE, digest .. id .. expires, 'PX', ttl) end
return { 1, version, expires, now }
