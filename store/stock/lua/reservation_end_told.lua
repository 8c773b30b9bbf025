-- Ends and extends holds as lua/reservation_end.lua does, and tells of those that expire.
-- KEYS: those of reservation_end.lua: 1 sale, 2 stock, 3 reservations, 4 due, 5 orders (zset), then the idempotency record of each
--       caller that wants one, and a key that never exists
-- ARGV: those of reservation_end.lua, but: 3 what is told (see tell_of), 4.. of each caller
-- RETURNS: as reservation_end.lua, with one more value of all callers: how many facts were left
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
-- @include lua/part_told.lua
-- @include lua/part_crowd.lua
tell_of(ARGV[3])
local first = 4
-- @include lua/part_ends.lua
local answers = end_all()
answers[2][2] = told
return answers
