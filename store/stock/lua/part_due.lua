-- Units that come back on sale, and the holds of a partition that are due. It needs
-- lua/part_sale.lua before it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- expired, if the script sets it, is called with each hold that expires.
local expired

-- give puts units back on sale; they cover oversold units first.
local function give(t, n)
  local owed = math.min(t.o, n)
  t.o, t.a, gave = t.o - owed, t.a + n - owed, true
end

-- take is its reverse; units that are not there become oversold.
local function take(t, n)
  local there = math.min(t.a, n)
  t.a, t.o = t.a - there, t.o + n - there
end

-- KNOWN is for how long after its end a released or expired hold can be read, in ms.
local KNOWN = 3600000

-- set_due sets when a hold is due. It begins with ZREM, which a Redis without memory allows: after its first write a
-- script may do all others too. It removes nothing, because a slot that moves would not let a key that is empty be
-- written again.
local function set_due(id, at)
  redis.call('ZREM', DUE, '')
  redis.call('ZADD', DUE, at, id)
end

-- finish ends a hold: s sold, r released, e expired. It begins with a command that a Redis without memory allows.
local function finish(id, r, state, now)
  local units = 0
  for sku, n in string.gmatch(r.lines, '([^=,]+)=(%d+)') do
    local t = stock_of(sku)
    t.h, units = t.h - n, units + n
    if state == 's' then t.s = t.s + n else give(t, tonumber(n)) end
  end
  if state == 's' then
    redis.call('ZREM', DUE, id)
  else
    local field = user_field(r.user)
    local had, last = units_of(field)
    set_units(field, had - units, last)
    set_due(id, int(now + KNOWN))
    if expired and state == 'e' then expired(id, r) end
  end
  r.state, r.ended = state, int(now)
  return store(id, r)
end

-- forget takes an ended reservation out of its user's list and out of the ledger.
local function forget(id, r)
  local before, after, field = reservation(r.prev), reservation(r.next), user_field(r.user)
  if before then
    before.next = r.next
    store(r.prev, before)
  end
  if after then
    after.prev = r.prev
    store(r.next, after)
  else
    set_units(field, units_of(field), r.prev)
  end
  records[id], gone[#gone + 1] = nil, id
  redis.call('ZREM', DUE, id)
end

-- return_due returns holds whose time is over, and forgets reservations that ended KNOWN ago:
-- at most bound of both together. It says how many; if that is bound, there may be more.
local function return_due(now, bound)
  link()
  local ids = redis.call('ZRANGEBYSCORE', DUE, '-inf', int(now), 'LIMIT', 0, bound)
  if #ids == 0 then return 0 end
  local texts = redis.call('HMGET', RESERVATIONS, unpack(ids))
  for i, id in ipairs(ids) do
    local r = parse(records[id] or texts[i])
    if r and r.state == 'h' then finish(id, r, 'e', now)
    elseif r and r.state ~= 's' then forget(id, r)
    else redis.call('ZREM', DUE, id) end
  end
  return #ids
end

-- next_due is how long until return_due has something to do, in ms; -1: nothing is waiting.
local function next_due(now)
  local next = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  return next[2] and math.max(tonumber(next[2]) - now, 0) or -1
end
