-- Reads a user's reservations, newest first: each names the one before.
-- KEYS: 1 sale, 2 reservations (hash)
-- ARGV: 1 user, 2 the reservation after which to begin ('' for the newest),
--       3 how many
-- RETURNS: {1 found, now in ms, id and text in turn}, {4 there is no such sale},
--          {7 the user has no such reservation}
local SALE, RESERVATIONS = KEYS[1], KEYS[2]
local user, after, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
if redis.call('HEXISTS', SALE, 'version') == 0 then return { 4 } end
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
