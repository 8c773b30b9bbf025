-- Reads a partition.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 totals (hash),
--       6 out (hash)
-- ARGV: 1 run (see run_id)
-- RETURNS: as state
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
-- @include lua/part_state.lua
return state(ARGV[1], KEYS[5], KEYS[6])
