-- Gives the right to build one user's index back. What is in the index stays.
-- KEYS: 1 build (string)
-- ARGV: 1 token
-- RETURNS: 0 it was another's or nobody's, 1 given back
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
