-- Notes who gets a notification of an event whose opened notifications are counted. Noting a user again changes nothing.
-- KEYS: 1 begins the keys of the event's slot, 2 a key that never exists
-- ARGV: 1 the event, 2 lifetime in ms, then of each user two: the bucket, or '' for beside the counts, and the digest
-- RETURNS: 1
local P, event, life = string.sub(KEYS[1], 1, -5), ARGV[1], ARGV[2]
local counts = P .. 'opened:' .. event
local written = { [counts] = true }

redis.call('DEL', KEYS[2]) -- a script whose first write frees memory is not refused by a full Redis
redis.call('HSETNX', counts, 'opened', 0)
for i = 3, #ARGV, 2 do
  local key = ARGV[i] == '' and counts or counts .. ':' .. ARGV[i]
  redis.call('HSETNX', key, ARGV[i + 1], 0)
  written[key] = true
end
for key in pairs(written) do redis.call('PEXPIRE', key, life) end
return 1
