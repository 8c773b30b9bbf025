-- The places where a job can be, and how it comes there.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- put notes where a named job is; the place begins with its letter: m, r, a a
-- stream and its entry, w behind its key (number:key), l later (due), p parked
-- (entry:name).
local function put(e, place)
  if e.r ~= '' then set_record(e.i, place) end
end

local function put_stream(e, letter)
  put(e, letter .. add(STREAM[letter], text_of(e)))
end

-- put_line lets a job wait outside of the streams: in a sorted set, as its text.
local function put_line(e, line, score, place, ms)
  if e.s == '' then e.s = int(ms) end
  redis.call('ZADD', line, int(score), text_of(e))
  put(e, place)
end

-- take_line takes the job out that waits there, among all of its score.
local function take_line(line, score, id)
  for from = 0, redis.call('ZCOUNT', line, score, score), 100 do
    for _, text in ipairs(redis.call('ZRANGEBYSCORE', line, score, score, 'LIMIT', from, 100)) do
      local e = parse(text)
      if e.i == id then
        redis.call('ZREM', line, text)
        return e
      end
    end
  end
end

-- After the second lost lease a job is claimed alone.
local function front(e)
  return e.l >= 2 and 'a' or 'r'
end

-- admit lets a job run as soon as its key is free: the first of a key is its
-- head and is in a stream, all others wait outside of it.
local function admit(e, letter, ms)
  if e.k ~= '' and redis.call('HSETNX', HEADS, e.k, e.i) == 0 then
    redis.call('HINCRBY', STATS, 'blocked', 1)
    local number = redis.call('INCR', P .. 'seq')
    return put_line(e, P .. 'wait:' .. e.k, number, 'w' .. int(number) .. ':' .. e.k, ms)
  end
  put_stream(e, letter)
end

-- yield ends a job's hold on its key and starts the next in line.
local function yield(k, id)
  if k == '' or redis.call('HGET', HEADS, k) ~= id then return end
  local next = redis.call('ZPOPMIN', P .. 'wait:' .. k)[1]
  if not next then
    redis.call('HDEL', HEADS, k)
    return
  end
  redis.call('HINCRBY', STATS, 'blocked', -1)
  local e = parse(next)
  redis.call('HSET', HEADS, k, e.i)
  put_stream(e, front(e))
end

local function put_later(e, due, ms)
  put_line(e, LATER, due, 'l' .. int(due), ms)
end

-- Milliseconds till the next job of `later` is due, -1 when there is none.
local function next_due(ms)
  local first = redis.call('ZRANGE', LATER, 0, 0, 'WITHSCORES')
  return first[2] and math.max(0, tonumber(first[2]) - ms) or -1
end

-- park moves a job to a stream that nobody reads until it is moved back.
local function park(e, name)
  local eid = add(P .. 'parked:' .. name, text_of(e))
  redis.call('HINCRBY', P .. 'parkedn', name, 1)
  put(e, 'p' .. eid .. ':' .. name)
end

local function unpark(name, eid)
  local e = entry_at(P .. 'parked:' .. name, eid)
  redis.call('XDEL', P .. 'parked:' .. name, eid)
  if redis.call('HINCRBY', P .. 'parkedn', name, -1) <= 0 then
    redis.call('HDEL', P .. 'parkedn', name)
    redis.call('DEL', P .. 'parked:' .. name)
  end
  return e
end
