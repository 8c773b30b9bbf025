-- Jobs whose time has come, and when that of the next will.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, LATER, STATS, int, parse
-- GIVES: take_due, next_due

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

-- next_due is the time in ms till the next job is due, -1 when there is none.
local function next_due(ms)
  local first = redis.call('ZRANGE', LATER, 0, 0, 'WITHSCORES')
  return first[2] and math.max(0, tonumber(first[2]) - ms) or -1
end
