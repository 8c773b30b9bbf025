-- Gives back an Idempotency-Key of acknowledgements that were refused.
-- KEYS: 1 record (string)
-- ARGV: 1 digest of the body
-- RETURNS: 0 there is an answer, or another's hold: nothing changed, 1 given back
local record, digest = KEYS[1], ARGV[1]

if redis.call('GET', record) ~= digest then
  return 0
end
return redis.call('DEL', record)
