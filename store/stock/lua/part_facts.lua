-- Facts (store/facts) that the steps of a partition leave in its outbox. One key of a script that leaves some never
-- exists: so a slot that moves refuses the script before it runs.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: SALE
-- GIVES: NAME, tell, tell_below, told
local P = string.sub(SALE, 1, -5) -- begins the keys of the partition
-- @include lua/fact_leave.lua
local NAME, told = string.match(P, '{sale:(.+):%d+}'), 0

-- tell leaves a fact about a key, and counts it. data is JSON, and at when it happened in ms. An identifier needs no escape in JSON.
local function tell(typ, key, at, data)
  leave_fact(typ, key, at, data)
  told = told + 1
end

-- tell_below leaves the fact that a sku is low. All arguments are texts.
local function tell_below(sku, available, low_at, at)
  tell('stock.below', NAME, at, '{"sale":"' .. NAME .. '","sku":"' .. sku .. '","available":' .. available .. ',"low_at":' .. low_at .. '}')
end
