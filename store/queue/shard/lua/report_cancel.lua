-- Marks a report as cancelled, unless its job is over. The mark is a field beside the report.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 id, 2 letters of the reports of jobs that are over, 3 the mark, a number
-- RETURNS: 0 there is no such report, 1 it is marked, 2 its job is over and it has no mark,
--          3 it had this mark or a higher one
-- @include lua/part_shard.lua
local id, over, mark = ARGV[1], ARGV[2], ARGV[3]
local key, field = P .. 'report:' .. string.sub(id, 1, 6), string.sub(id, 7)

local text = redis.call('HGET', key, field)
if not text then return 0 end
local was = tonumber(redis.call('HGET', key, field .. '!') or 0)
if was >= tonumber(mark) then return 3 end
if was == 0 and string.find(over, string.sub(text, 1, 1), 1, true) then return 2 end
redis.call('DEL', KEYS[2]) -- the first write: no full Redis refuses it, nor the write after it
redis.call('HSET', key, field .. '!', mark)
return 1
