-- Reads the state of a lock and changes nothing.
-- KEYS: 1 the record
-- ARGV: none
-- RETURNS: {0 free, 2 held, 3 done or 4 exhausted, the present attempt or, of a free lock, how many counted,
--          ms of the lease that are left, the last fence}
-- @include lua/record.lua
local text = redis.call('GET', KEYS[1])
if not text then return { 0, 0, 0, '0' } end
local mark = string.sub(text, 1, 1)
if mark == 'D' then return { 3, 0, 0, string.sub(text, 3) } end
if mark == 'X' then return { 4, 0, 0, '0' } end
local r = read_record(text)
local left = left_of(r, math.floor(now_us() / 1000))
if r.state == 'R' and left >= 0 then return { 2, r.failures + 1, math.max(1, left), r.fence } end
return { 0, r.failures + (r.state == 'R' and 1 or 0), 0, r.fence }
