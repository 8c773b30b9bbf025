-- Jobs that wait for their time.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- put_later lets a job wait for its time. What is due at about the same time shares a
-- list, which takes a third of the memory of a sorted set of texts: a job starts late
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

-- take_due takes at most `most` jobs whose time has come.
local function take_due(ms, most)
  local due = {}
  for _, slot in ipairs(redis.call('ZRANGEBYSCORE', LATER, '-inf', int(ms), 'LIMIT', 0, most)) do
    local list, before = P .. 'later:' .. slot, #due
    for _, text in ipairs(redis.call('LRANGE', list, 0, most - before - 1)) do due[#due + 1] = parse(text) end
    redis.call('LTRIM', list, #due - before, -1)
    redis.call('HINCRBY', STATS, 'later', before - #due)
    if redis.call('EXISTS', list) == 0 then redis.call('ZREM', LATER, slot) end
    if #due == most then break end
  end
  return due
end

-- Milliseconds till the next job of `later` is due, -1 when there is none.
local function next_due(ms)
  local first = redis.call('ZRANGE', LATER, 0, 0, 'WITHSCORES')
  return first[2] and math.max(0, tonumber(first[2]) - ms) or -1
end
