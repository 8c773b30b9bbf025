-- Writes what a process counted in a minute, and chooses the process that writes how much work waits.
-- A second run changes nothing and gives the same answer.
-- KEYS: 1 the minute (hash)
-- ARGV: 1 the field, 2 its value, 3 how long the minute is kept, in ms, 4 "1" if this process would write how much
--   work waits
-- RETURNS: 1 if this process writes how much work waits, else 0
local minute, field, value, lifetime, volunteers = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'

redis.call('HSET', minute, field, value)
redis.call('PEXPIRE', minute, lifetime)
if not volunteers then
  return 0
end
redis.call('HSETNX', minute, 'reader', field)
return redis.call('HGET', minute, 'reader') == field and 1 or 0
