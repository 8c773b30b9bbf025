-- Confirms and releases holds for several callers, each hold once: a repeat gets the same
-- answer. Or extends holds, but not beyond max_hold from their making. A hold whose time is over
-- expires here, if no sweep has returned it yet. While a load compares the partition with the record,
-- it confirms and extends holds that are here: held and sold units together stay what they were. Facts are left of holds
-- that expire, if they are told.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 orders (zset), then, if something is told, a key that never
--       exists, then the idempotency record of each caller that wants one
-- ARGV: 1 run (see run_id), 2 lifetime of the idempotency records in ms, 3 partitions of the sale (see unusable), 4 what is told (see tell_of), 5.. of each
--       caller in turn the reservation's id; s to confirm or r to release and, right
--       behind that letter, the user who must have made it, if that matters, or h and for how
--       long from now it is to be held in ms; the digest of the body ('' without a record);
--       and the id of this request
-- RETURNS: {1 a reservation has ended as asked or is unknown, or 0, {version, and how many facts
--          were left if something is told}, each caller's answer},
--          {4, 5, 6, 14 as unusable}. An answer is
--          {1 it has ended as asked, the reservation, 1 its order is not on record},
--          {2 the same, by a replay}, {3 other body}, {5 the load must end first}, {7 unknown},
--          {8 it is not held, the reservation}
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
local first, tells = 5, ARGV[4]
-- @include lua/part_crowd.lua
-- @include lua/part_ends.lua
if tells == '' then return end_all() end
-- @include lua/part_told.lua
tell_of(tells)
local answers = end_all()
answers[2][2] = told
return answers
