-- How jobs get into streams and out of them.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: STREAM, add, text_of
-- GIVES: put_stream, front, disown
local function put_stream(e, letter)
  add(STREAM[letter], text_of(e))
end

-- front is the stream of a job that comes back: after the second lost lease it runs among
-- a few such jobs, after the third alone.
local function front(e)
  return e.l >= 3 and 'a' or e.l == 2 and 'f' or 'r'
end

local function disown(letter, eid)
  redis.call('XACK', STREAM[letter], 'g', eid)
  redis.call('XDEL', STREAM[letter], eid)
end
