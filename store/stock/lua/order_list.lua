-- Reads reservations whose orders wait for the record, oldest first.
-- KEYS: 1 sale, 2 orders (zset), 3 reservations (hash)
-- ARGV: 1 how many, 2 the reservation after which to begin ('' for the first), 3 when it was
--       sold in ms: if it does not wait any more, the list begins at that time
-- RETURNS: {1 found, id and text in turn}, {4 there is no such sale}
local SALE, ORDERS, RESERVATIONS = KEYS[1], KEYS[2], KEYS[3]
if redis.call('HEXISTS', SALE, 'version') == 0 then return { 4 } end
local answer = { 1 }
local last = redis.call('ZRANK', ORDERS, ARGV[2])
local from = last and last + 1 or redis.call('ZCOUNT', ORDERS, '-inf', '(' .. ARGV[3])
for _, id in ipairs(redis.call('ZRANGE', ORDERS, from, from + tonumber(ARGV[1]) - 1)) do
  answer[#answer + 1] = id
  answer[#answer + 1] = redis.call('HGET', RESERVATIONS, id) or ''
end
return answer
