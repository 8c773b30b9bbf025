-- Reserves for several callers: each gets all its lines or none. Replays, the sale's window, the
-- user's limit, due holds, stock and records are one step. Run again with the same ids it gives
-- the same answers. A refusal changes nothing, except that due holds are returned. Facts are left of holds that
-- expire and of skus that become low, if they are told.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 orders (zset), then, if something is told, a key that never
--       exists, then the idempotency record of each caller that wants one
-- ARGV: 1 run (see run_id), 2 partitions of the sale, 3 lifetime of the
--       idempotency records in ms, 4 most due holds to return, 5 what is told (see tell_of), 6.. of each caller
--       in turn the user, the reservation's id, the digest of the body and the id of
--       this request ('' without a record) and "<sku>=<units>,..."
-- RETURNS: {1 a caller has a reservation, or 0, {version, now in ms, end of a
--          new hold in ms or 0: sold, and how many facts were left if something is told}, each caller's answer}, {4, 5, 6 as
--          unusable}, {7 the sale has another number of partitions}. An answer is
--          1 made, {1 made when the script ran before, end of the hold, when},
--          {2 replayed, end of the hold of the first answer}, {3 other body},
--          {8 unknown sku, which line}, {9 not started, ms until then},
--          {10 ended, 1 because it was idle}, {11 the user's limit, units that remain},
--          {12 not enough, ms to the next due hold or -1, available of each line},
--          {13 more holds are due: call again}
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
local first, tells = 6, ARGV[5]
-- @include lua/part_crowd.lua
-- @include lua/part_reserve.lua
if tells == '' then return reserve_all() end
-- @include lua/part_told.lua
tell_of(tells)
local low = low_skus()
local answers = reserve_all()
if #made > 0 then tell_low(low, now) end
answers[2][4] = told
return answers
