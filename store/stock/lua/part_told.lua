-- Facts of holds that expire, and of skus of which few units are left (store/facts).
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: SALE, tuples and int of lua/part_sale.lua, expired of lua/part_due.lua
-- GIVES: tell_of, low_skus, tell_low, and all of lua/part_facts.lua
-- @include lua/part_facts.lua
local tells_low = false

local function tell_expired(id, r)
  local lines = string.gsub(r.lines, '([^=,]+)=(%d+)', '{"sku":"%1","quantity":%2}')
  tell('hold.expired', id, r.expires, '{"sale":"' .. NAME .. '","reservation":"' .. id .. '","user":"' .. r.user .. '","lines":[' .. lines .. ']}')
end

-- tell_of says what is told: e holds that expire, b skus that become low.
local function tell_of(what)
  if string.find(what, 'e', 1, true) then expired = tell_expired end
  tells_low = string.find(what, 'b', 1, true) ~= nil
end

-- low_skus looks at the skus whose stock the script has read by now. It gives the low_at of each that is low, and false for each other
-- one; nil if skus that become low are not told. In a partition of several none counts as low (lua/stock_low.lua).
local function low_skus()
  if not tells_low then return nil end
  local s, low = redis.call('HMGET', SALE, 'partitions', 'lows'), {}
  for sku in pairs(tuples) do low[sku] = false end
  if s[1] ~= '1' then return low end
  for sku, n in string.gmatch(s[2] or '', '([^=,]+)=(%d+)') do
    local t, at = tuples[sku], tonumber(n)
    if t and t.a <= at then low[sku] = at end
  end
  return low
end

-- tell_low tells of the skus that are low now and were not in before, an earlier result of low_skus.
local function tell_low(before, now)
  if not before then return end
  for sku, at in pairs(low_skus()) do
    if at and before[sku] == false then tell_below(sku, int(tuples[sku].a), int(at), int(now)) end
  end
end
