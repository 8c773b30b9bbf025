-- Makes a reservation sold that the record has an order of: a hold is confirmed,
-- anything else takes units from what is available, and beyond that counts as
-- oversold. Naturally idempotent.
-- KEYS: 1 sale, 2 stock, 3 users, 4 reservations, 5 due, 6 by_user (zset)
-- ARGV: 1 id, 2 user, 3 when it was sold in ms, 4 <sku>=<units>,...
-- RETURNS: 0 it was sold already, 1 restored, 4 there is no such sale
-- @include lua/part_sale.lua
local BY_USER = KEYS[6]
local id, user, at, lines = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('HEXISTS', SALE, 'version') == 0 then return 4 end
local r = parse(redis.call('HGET', RESERVATIONS, id))
if r and r.state == 's' then return 0 end
if r and r.state == 'h' then
  finish(id, r, 's', tonumber(at))
  save_stock()
  return 1
end
local units = 0
for sku, n in string.gmatch(lines, '([^=,]+)=(%d+)') do
  local t = stock_of(sku)
  take(t, tonumber(n))
  t.s, units = t.s + n, units + n
end
save_stock()
count_units(user, units)
if not r then
  redis.call('ZADD', BY_USER, 0, user .. '/' .. string.format('%014.0f', 99999999999999 - tonumber(at)) .. '/' .. id)
end
store(id, { state = 's', user = user, created = r and r.created or at, expires = r and r.expires or '0', ended = at, lines = lines })
return 1
