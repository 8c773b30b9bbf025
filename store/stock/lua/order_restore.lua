-- Makes a reservation sold that has an order on record. A hold is confirmed; any other
-- reservation takes available units, and if there are too few the rest counts as oversold. Facts are left unless the
-- partition was made from the record just now: then Redis had lost all of it, and what is sold was told before.
-- Naturally idempotent.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, then a key that never exists
-- ARGV: 1 id, 2 user, 3 when it was sold in ms, 4 <sku>=<units>,..., 5 what is told (see tell_of), 6 data of the fact about the
--       order, or '': it is not told
-- RETURNS: 0 it was sold already, 1 restored, 4 there is no such sale
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
-- @include lua/part_told.lua
local id, user, at, lines, data = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6]

if redis.call('HEXISTS', SALE, 'version') == 0 then return 4 end
local r = parse(redis.call('HGET', RESERVATIONS, id))
if r and r.state == 's' then return 0 end
local was_here = redis.call('HEXISTS', SALE, 'run_id') == 1 -- see settings_apply.lua
if was_here then tell_of(ARGV[5]) end

local function restored(low)
  save()
  tell_low(low, now_ms())
  if was_here and data ~= '' then tell('order.created', id, at, data) end
  return 1
end
if r and r.state == 'h' then
  finish(id, r, 's', tonumber(at))
  return restored()
end
local units, skus = 0, {}
for sku in string.gmatch(lines, '([^=,]+)=%d+') do skus[#skus + 1] = sku end
load_stock(skus)
local low = low_skus()
for sku, n in string.gmatch(lines, '([^=,]+)=(%d+)') do
  local t = stock_of(sku)
  take(t, tonumber(n))
  t.s, units = t.s + n, units + n
end
local field = user_field(user)
local had, last = units_of(field)
set_units(field, had + units, r and last or id)
if r then
  redis.call('ZREM', DUE, id)
else
  r = { user = user, created = at, expires = '0', prev = last }
  join(last, id)
end
r.state, r.ended, r.lines = 's', at, lines
store(id, r)
return restored(low)
