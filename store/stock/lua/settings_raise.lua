-- Notes a number in a partition's settings: it only rises. Naturally idempotent. A version
-- on record that is above the sale's own is of a change that Redis has lost: then the sale
-- is as one of another run of the server, by whichever loading, and is brought in line with
-- the record.
-- KEYS: 1 sale
-- ARGV: 1 field, 2 the number
-- RETURNS: 0 there is no sale, 1 noted
local version = redis.call('HGET', KEYS[1], 'version')
if not version then return 0 end
if ARGV[1] == 'recorded' and tonumber(ARGV[2]) > tonumber(version) then redis.call('HSET', KEYS[1], 'run_id', '?', 'loading', '?') end
local old = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if tonumber(ARGV[2]) > old then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
return 1
