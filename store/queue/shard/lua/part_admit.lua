-- Lets a job run as soon as its conflict key is free.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, HEADS, STATS, int, text_of, put_stream
-- GIVES: admit

-- admit puts a job into a stream, or behind its key: the first job of a key is its head
-- and is in a stream, all others wait outside of it.
local function admit(e, letter, ms)
  if e.k == '' or redis.call('HSETNX', HEADS, e.k, e.i) == 1 then return put_stream(e, letter) end
  if e.s == '' then e.s = int(ms) end
  redis.call('HINCRBY', STATS, 'blocked', 1)
  redis.call('ZADD', P .. 'wait:' .. e.k, int(redis.call('INCR', P .. 'seq')), text_of(e))
end
