-- Ends a user's presence when his last stream in a process ended, unless another
-- process has marked him since.
-- KEYS: 1 present (string)
-- ARGV: 1 the process
-- RETURNS: 0 another's, or none: nothing changed, 1 ended
local present, process = KEYS[1], ARGV[1]

if redis.call('GET', present) ~= process then
  return 0
end
redis.call('DEL', present)
return 1
