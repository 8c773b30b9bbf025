-- Reads a user's reservations, newest first.
-- KEYS: 1 sale, 2 by_user (zset), 3 reservations (hash)
-- ARGV: 1 where to begin, and 2 where to end, as ZRANGEBYLEX takes them, 3 how many
-- RETURNS: {1 found, now in ms, place, id and text in turn}, {4 there is no such sale}
local SALE, BY_USER, RESERVATIONS = KEYS[1], KEYS[2], KEYS[3]
if redis.call('HEXISTS', SALE, 'version') == 0 then return { 4 } end
local t = redis.call('TIME')
local answer = { 1, tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000) }
for _, place in ipairs(redis.call('ZRANGEBYLEX', BY_USER, ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])) do
  local id = string.match(place, '[^/]+$')
  local text = redis.call('HGET', RESERVATIONS, id)
  if text then
    answer[#answer + 1] = place
    answer[#answer + 1] = id
    answer[#answer + 1] = text
  end
end
return answer
