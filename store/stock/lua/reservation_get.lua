-- Reads reservations by their ids.
-- KEYS: 1 sale, 2 reservations (hash)
-- ARGV: 1.. ids
-- RETURNS: {1 found, now in ms, text of each or ''}, {4 there is no such sale}
local SALE, RESERVATIONS = KEYS[1], KEYS[2]
if redis.call('HEXISTS', SALE, 'version') == 0 then return { 4 } end
local t = redis.call('TIME')
local answer = { 1, tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000) }
for i, text in ipairs(redis.call('HMGET', RESERVATIONS, unpack(ARGV))) do answer[i + 2] = text or '' end
return answer
