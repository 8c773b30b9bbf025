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
  put(e, slot)
end

-- left_later notes that n jobs have left a list.
local function left_later(slot, n)
  redis.call('HINCRBY', STATS, 'later', -n)
  if redis.call('EXISTS', P .. 'later:' .. slot) == 0 then redis.call('ZREM', LATER, slot) end
end

local function take_later(slot, id)
  local list = P .. 'later:' .. slot
  for from = 0, redis.call('LLEN', list), 100 do
    for _, text in ipairs(redis.call('LRANGE', list, from, from + 99)) do
      local e = parse(text)
      if e.i == id then
        redis.call('LREM', list, 1, text)
        left_later(slot, 1)
        return e
      end
    end
  end
end

-- take_due takes at most `most` jobs whose time has come.
local function take_due(ms, most)
  local due = {}
  for _, slot in ipairs(redis.call('ZRANGEBYSCORE', LATER, '-inf', int(ms), 'LIMIT', 0, most)) do
    local list, before = P .. 'later:' .. slot, #due
    for _, text in ipairs(redis.call('LRANGE', list, 0, most - before - 1)) do due[#due + 1] = parse(text) end
    redis.call('LTRIM', list, #due - before, -1)
    left_later(slot, #due - before)
    if #due == most then break end
  end
  return due
end

-- Milliseconds till the next job of `later` is due, -1 when there is none.
local function next_due(ms)
  local first = redis.call('ZRANGE', LATER, 0, 0, 'WITHSCORES')
  return first[2] and math.max(0, tonumber(first[2]) - ms) or -1
end
