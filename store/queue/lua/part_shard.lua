-- The keys of a shard, the entry of a job and the places where it can be.
-- Every key has the prefix, and with it the hash tag, of KEYS[1].
-- KEYS: 1 the live records (hash) of the including script
-- ARGV: none
-- RETURNS: nothing; it only defines names
local P = string.sub(KEYS[1], 1, -5)
local MAIN, READY, ALONE = P .. 'main', P .. 'ready', P .. 'alone'
local LATER, HEADS, UNIQUES, STATS = P .. 'later', P .. 'heads', P .. 'uniques', P .. 'stats'
local STREAM = { m = MAIN, r = READY, a = ALONE }

-- An entry's fields always come in this order, so that Redis stores their
-- names once per node of a stream and values can be read by position.
local function entry_of(v)
  return { i = v[2], t = v[4], k = v[6], u = v[8], g = v[10], w = v[12], s = v[14], a = v[16], p = v[18] }
end

local function add(stream, e)
  return redis.call('XADD', stream, '*', 'i', e.i, 't', e.t, 'k', e.k, 'u', e.u, 'g', e.g, 'w', e.w, 's', e.s, 'a', e.a, 'p', e.p)
end

local function entry_at(stream, eid)
  local found = redis.call('XRANGE', stream, eid, eid, 'COUNT', 1)
  return found[1] and entry_of(found[1][2])
end

-- remove acknowledges and deletes entries, lists of their ids by letter.
local function remove(drop)
  for letter, eids in pairs(drop) do
    if eids[1] then
      redis.call('XACK', STREAM[letter], 'g', unpack(eids))
      redis.call('XDEL', STREAM[letter], unpack(eids))
    end
  end
end

-- put writes where a job waits; `where` begins with the letter of the place:
-- m, r, a a stream and its entry, w behind its key, l later, p parked.
local function put(e, r, where)
  r.state, r.till, r.owner = 'Q', 0, where .. (r.tag or '')
  set_record(e.i, r)
end

local function put_stream(e, r, letter)
  put(e, r, letter .. add(STREAM[letter], e))
end

local function put_body(e, r, where)
  redis.call('HSET', P .. 'body:' .. e.i, 'i', e.i, 't', e.t, 'k', e.k, 'u', e.u, 'g', e.g, 'w', e.w, 's', e.s, 'a', e.a, 'p', e.p)
  put(e, r, where)
end

local function take_body(id)
  local v = redis.call('HMGET', P .. 'body:' .. id, 'i', 't', 'k', 'u', 'g', 'w', 's', 'a', 'p')
  redis.call('DEL', P .. 'body:' .. id)
  if not v[1] then return nil end
  return { i = v[1], t = v[2], k = v[3], u = v[4], g = v[5], w = v[6], s = v[7], a = v[8], p = v[9] }
end

-- After the second lost lease a job is claimed alone.
local function front(r)
  return tonumber(r.lost) >= 2 and 'a' or 'r'
end

-- admit lets a job run as soon as its key is free: the first of a key is its
-- head and is in a stream, all others wait outside of it.
local function admit(e, r, letter)
  if e.k ~= '' and redis.call('HSETNX', HEADS, e.k, e.i) == 0 then
    redis.call('ZADD', P .. 'wait:' .. e.k, redis.call('INCR', P .. 'seq'), e.i)
    redis.call('HINCRBY', STATS, 'blocked', 1)
    return put_body(e, r, 'w')
  end
  put_stream(e, r, letter)
end

-- yield ends a job's hold on its key and starts the next in line.
local function yield(k, id)
  if k == '' or redis.call('HGET', HEADS, k) ~= id then return end
  for _ = 1, 8 do
    local id2 = redis.call('ZPOPMIN', P .. 'wait:' .. k)[1]
    if not id2 then break end
    redis.call('HINCRBY', STATS, 'blocked', -1)
    local e, r = take_body(id2), record_of(id2)
    if e and r then
      redis.call('HSET', HEADS, k, id2)
      return put_stream(e, r, front(r))
    end
  end
  redis.call('HDEL', HEADS, k)
end

local function put_later(e, r, due)
  redis.call('ZADD', LATER, int(due), e.i)
  put_body(e, r, 'l')
end

-- Milliseconds till the next job of `later` is due, -1 when there is none.
local function next_due(ms)
  local first = redis.call('ZRANGE', LATER, 0, 0, 'WITHSCORES')
  return first[2] and math.max(0, tonumber(first[2]) - ms) or -1
end

-- park moves a job to a stream that nobody reads until it is moved back.
local function park(e, r, name)
  local eid = add(P .. 'parked:' .. name, e)
  redis.call('HINCRBY', P .. 'parkedn', name, 1)
  put(e, r, 'p' .. eid .. ':' .. name)
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
