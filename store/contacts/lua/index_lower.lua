-- Lowers scores that are higher than SQL's: each only if it is still the score that the
-- reader saw, and all only if there was no change in between that no score shows.
-- KEYS: 1 recent (zset), 2 state (hash)
-- ARGV: 1 sequence that the reader saw, 2.. contact, score seen, score now
--       ('' when there is none) in turn
-- RETURNS: 0 there was a change in between: nothing was lowered, 1 lowered
local recent, state = KEYS[1], KEYS[2]
local sequence = ARGV[1]
local first, step = 2, 3

if redis.call('HGET', state, 'q') ~= sequence then
  return 0
end
redis.call('HINCRBY', state, 'q', 1)
for i = first, #ARGV - step + 1, step do
  local contact, seen, now = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local score = redis.call('ZSCORE', recent, contact)
  if score and tonumber(score) == seen then
    if now == '' then
      redis.call('ZREM', recent, contact)
    else
      redis.call('ZADD', recent, 'XX', now, contact)
    end
  end
end
return 1
