-- Holds an Idempotency-Key of acknowledgements for one body, and finds the answer
-- that was given before. The acknowledgements themselves are in other slots; they
-- only move forward, so that doing them twice has the effect of once.
-- KEYS: 1 record (string)
-- ARGV: 1 digest of the body, 2 lifetime in ms
-- RETURNS: 0 it is held for another body, 1 go on, 2 and the answer
local record, digest, lifetime = KEYS[1], ARGV[1], ARGV[2]

local found = redis.call('GET', record)
if not found then
  redis.call('SET', record, digest, 'PX', lifetime)
  return { 1 }
end
if string.sub(found, 1, #digest) ~= digest then
  return { 0 }
end
if #found == #digest then
  return { 1 }
end
return { 2, string.sub(found, #digest + 1) }
