-- Reads reservations by their ids.
-- KEYS: 1 sale, 2 reservations (hash)
-- ARGV: 1 run (see run_id), 2 partitions of the sale (see unusable), 3.. ids
-- RETURNS: {1 found, now in ms, text of each or ''}, {4, 5, 6, 14 as unusable}
-- @include lua/part_run.lua
local SALE, RESERVATIONS = KEYS[1], KEYS[2]
local run, partitions, first = ARGV[1], ARGV[2], 3
local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'partitions')
local why = unusable(s[1], s[2], s[3], run, s[4], partitions)
if why then return { why } end
local t = redis.call('TIME')
local answer = { 1, tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000) }
for i, text in ipairs(redis.call('HMGET', RESERVATIONS, unpack(ARGV, first))) do answer[i + 2] = text or '' end
return answer
