-- Takes available units out of a partition for another, and leaves a record of the transfer. It
-- does nothing if another transfer touched the partition since the caller read it, so sent
-- repeatedly it happens once.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 out (hash)
-- ARGV: 1 run (see run_id), 2 1 while the sale is closed, 3 moves as the caller saw them,
--       4 id of the transfer, 5 partition that gets them, 6.. sku and units wanted
--       in turn
-- RETURNS: {1 on its way, the record, the load that the partition comes from},
--          {2 something moved: read again}, {4, 5, 6 as unusable}
-- @include lua/part_sale.lua
local OUT = KEYS[5]
local run, closed, moves, id, to = ARGV[1], ARGV[2] == '1', ARGV[3], ARGV[4], ARGV[5]
local first, step = 6, 2

local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'moves', 'loading')
local why = unusable(s[1], not closed and s[2], s[3], closed and '' or run)
if why then return { why } end
if closed and not s[2] then return { 2 } end
local before = redis.call('HGET', OUT, id)
if before then return { 1, before, s[5] or '' } end
if (s[4] or '0') ~= moves then return { 2 } end

local lines = {}
for i = first, #ARGV - 1, step do
  local t = stock_of(ARGV[i])
  local n = math.min(t.a, tonumber(ARGV[i + 1]))
  t.a = t.a - n
  if n > 0 then lines[#lines + 1] = ARGV[i] .. '=' .. int(n) end
end
if #lines == 0 then return { 2 } end
save()
local record = int(now_ms()) .. '|' .. to .. '|' .. table.concat(lines, ',')
redis.call('HSET', OUT, id, record)
redis.call('HINCRBY', SALE, 'moves', 1)
return { 1, record, s[5] or '' }
