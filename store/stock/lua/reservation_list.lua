-- Reads a user's reservations, newest first: each names the one before.
-- KEYS: 1 sale, 2 reservations (hash)
-- ARGV: 1 run (see run_id), 2 user, 3 the reservation after which to begin ('' for the
--       newest), 4 how many, 5 partitions of the sale (see unusable)
-- RETURNS: {1 found, now in ms, id and text in turn}, {4, 5, 6, 14 as unusable},
--          {7 the user has no such reservation}
-- @include lua/part_run.lua
local SALE, RESERVATIONS = KEYS[1], KEYS[2]
local run, user, after, count, partitions = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'partitions')
local why = unusable(s[1], s[2], s[3], run, s[4], partitions)
if why then return { why } end
local t = redis.call('TIME')
local answer = { 1, tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000) }

local function owner_and_prev(text)
  return string.match(text or '', '^%a|([^|]*)|%d+|%d+|%d+|([^|]*)|')
end
local id = string.match(redis.call('HGET', RESERVATIONS, 'u:' .. user) or '', '^%d+ (.*)$') or ''
if after ~= '' then
  local owner, prev = owner_and_prev(redis.call('HGET', RESERVATIONS, after))
  if owner ~= user then return { 7 } end
  id = prev
end
for _ = 1, count do
  local text = id ~= '' and redis.call('HGET', RESERVATIONS, id)
  if not text then return answer end
  answer[#answer + 1] = id
  answer[#answer + 1] = text
  local _, prev = owner_and_prev(text)
  id = prev or ''
end
return answer
