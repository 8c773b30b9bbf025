-- What parked jobs take of Redis.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: STATS
-- GIVES: count_parked
local BESIDE = 100 -- bytes that a parked job takes beside its text, about

-- count_parked counts a job that is parked (1) or moved back (-1) and returns the bytes
-- that the shard's parked jobs take now.
local function count_parked(text, sign)
  return redis.call('HINCRBY', STATS, 'parkedb', sign * (#text + BESIDE))
end
