-- Reserves an Idempotency-Key for one body, because the chat that is made is in another
-- slot.
-- KEYS: 1 claim (string)
-- ARGV: 1 digest of the body, 2 lifetime in ms
-- RETURNS: 0 it is reserved for another body, 1 reserved for this one
if not redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') and redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return 1
