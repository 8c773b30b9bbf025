-- The places where a job can be, and how it comes there.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- put notes where a named job is; the place begins with its letter: m, r, a a
-- stream and its entry, w behind its key (number:key), p parked (entry:name); one for
-- later is its time alone, a number, which Redis keeps in half the bytes.
local function put(e, place)
  if e.r ~= '' then set_record(e.i, place) end
end

local function put_stream(e, letter)
  put(e, letter .. add(STREAM[letter], text_of(e)))
end

-- put_line lets a job wait behind its key, as its text.
local function put_line(e, number, ms)
  if e.s == '' then e.s = int(ms) end
  redis.call('ZADD', P .. 'wait:' .. e.k, int(number), text_of(e))
  put(e, 'w' .. int(number) .. ':' .. e.k)
end

local function take_line(key, number, id)
  local text = redis.call('ZRANGEBYSCORE', P .. 'wait:' .. key, number, number, 'LIMIT', 0, 1)[1]
  local e = text and parse(text)
  if not e or e.i ~= id then return nil end
  redis.call('ZREM', P .. 'wait:' .. key, text)
  redis.call('HINCRBY', STATS, 'blocked', -1)
  return e
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
    return put_line(e, number, ms)
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

local BESIDE = 100 -- bytes that a parked job takes beside its text, about
local parked_bytes = -1 -- what the shard's parked jobs take, once that has changed

local function count_parked(text, sign)
  parked_bytes = redis.call('HINCRBY', STATS, 'parkedb', sign * (#text + BESIDE))
end

-- park moves a job to a stream that nobody reads until it is moved back.
local function park(e, name)
  local text = text_of(e)
  local eid = add(P .. 'parked:' .. name, text)
  redis.call('HINCRBY', P .. 'parkedn', name, 1)
  count_parked(text, 1)
  put(e, 'p' .. eid .. ':' .. name)
end

local function unpark(name, eid)
  local text = text_at(P .. 'parked:' .. name, eid)
  redis.call('XDEL', P .. 'parked:' .. name, eid)
  if text then count_parked(text, -1) end
  if redis.call('HINCRBY', P .. 'parkedn', name, -1) <= 0 then
    redis.call('HDEL', P .. 'parkedn', name)
    redis.call('DEL', P .. 'parked:' .. name)
  end
  return text and dated(parse(text), eid)
end
