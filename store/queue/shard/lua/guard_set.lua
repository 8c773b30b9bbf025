-- Stores the companion record of jobs, if it is still what the caller read before it looked up the
-- new one. So a command that runs late does not overwrite a newer record. Running it twice is the
-- same as once.
-- KEYS: 1 record (string)
-- ARGV: 1 the record that was read ('' for none), 2 the new record, 3 its lifetime in ms
-- RETURNS: the record that is there now; it is the new one if it was stored
local key, read, new, lifetime = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local have = redis.call('GET', key) or ''
if have ~= read and have ~= new then
  return have
end
-- This comes first, because a full Redis refuses no write that follows another one in a script. It must not be a
-- DEL: while the slot moves, a script can't write a key again that it has deleted.
redis.call('PEXPIRE', key, lifetime)
redis.call('SET', key, new, 'PX', lifetime)
return new
