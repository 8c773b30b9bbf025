-- Asks every process to try one notification of each of some apps now. A second run for the same
-- request changes nothing that matters: it asks again for the same.
-- KEYS: 1 the probes that were asked for (hash: app to request), 2 the record of the Idempotency-Key
--       (string), 3.. of each app the key by which a probe is taken (string)
-- ARGV: 1 request, 2 lifetime of the hash in ms, 3 digest of the body, '' without an
--       Idempotency-Key, 4 lifetime of the record in ms, 5.. the apps
-- RETURNS: 0 the Idempotency-Key was used with another body, 1 asked, 2 an earlier request asked
local asked, record = KEYS[1], KEYS[2]
local request, ttl, digest, record_ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local old = digest ~= '' and redis.call('GET', record)
if old and string.sub(old, 1, #digest) ~= digest then return 0 end
if old and old ~= digest .. request then return 2 end
for i = 3, #KEYS do
  redis.call('DEL', KEYS[i])
  redis.call('HSET', asked, ARGV[i + 2], request)
end
if #KEYS > 2 then redis.call('PEXPIRE', asked, ttl) end
if digest ~= '' then redis.call('SET', record, digest .. request, 'PX', record_ttl) end
return 1
