-- Gives back an Idempotency-Key whose request was refused.
-- KEYS: 1 claim (string)
-- ARGV: 1 digest of the body
-- RETURNS: 0 it was held for another body, or not at all, 1 given back
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
