-- The places where a job can be, and how it comes there.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions

local function put_stream(e, letter)
  add(STREAM[letter], text_of(e))
end

-- put_line lets a job wait behind its key, as its text.
local function put_line(e, number, ms)
  if e.s == '' then e.s = int(ms) end
  redis.call('ZADD', P .. 'wait:' .. e.k, int(number), text_of(e))
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
  add(P .. 'parked:' .. name, text)
  redis.call('HINCRBY', P .. 'parkedn', name, 1)
  count_parked(text, 1)
end

