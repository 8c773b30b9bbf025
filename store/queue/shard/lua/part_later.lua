-- Lets a job wait for its time.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, LATER, STATS, int, text_of
-- GIVES: put_later

-- put_later lets a job wait for its time. Jobs that are due at about the same time share
-- a list, which takes a third of the memory of a sorted set of texts: a job starts late
-- by at most a 32nd of its delay, and never by more than half a second.
local function put_later(e, due, ms)
  local step = 1
  for _ = 1, 9 do
    if due - ms >= 64 * step then step = 2 * step end
  end
  local slot = int(math.ceil(due / step) * step)
  if e.s == '' then e.s = int(ms) end
  redis.call('ZADD', LATER, slot, slot)
  redis.call('RPUSH', P .. 'later:' .. slot, text_of(e))
  redis.call('HINCRBY', STATS, 'later', 1)
end
