-- Reads reservations in the order of one of the partition's sorted sets: those that are due or were
-- not sold, or those whose orders wait for the record.
-- KEYS: 1 sale, 2 the sorted set, 3 reservations (hash)
-- ARGV: 1 run (see run_id), 2 how many, 3 the reservation after which to begin ('' for the first),
--       4 its score then: if it has another one by now, the list begins at this score,
--       5 partitions of the sale (see unusable)
-- RETURNS: {1 found, now in ms, id, score and text in turn}, {4, 5, 6, 14 as unusable}
-- @include lua/part_run.lua
local SALE, SET, RESERVATIONS = KEYS[1], KEYS[2], KEYS[3]
local run, count, after, score, partitions = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'partitions')
local why = unusable(s[1], s[2], s[3], run, s[4], partitions)
if why then return { why } end
local t = redis.call('TIME')
local answer = { 1, tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000) }
local same = tonumber(redis.call('ZSCORE', SET, after) or -1) == tonumber(score)
local from = same and redis.call('ZRANK', SET, after) + 1 or redis.call('ZCOUNT', SET, '-inf', '(' .. score)
local found = redis.call('ZRANGE', SET, from, from + count - 1, 'WITHSCORES')
for i = 1, #found, 2 do
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = found[i], found[i + 1], redis.call('HGET', RESERVATIONS, found[i]) or ''
end
return answer
