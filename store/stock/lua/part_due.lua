-- What is put back on sale, and the holds of a partition that are due; it needs
-- lua/part_sale.lua before it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- give puts units back on sale; what was sold beyond the total comes first.
local function give(t, n)
  local owed = math.min(t.o, n)
  t.o, t.a, gave = t.o - owed, t.a + n - owed, true
end

-- take is its reverse, also beyond what is there.
local function take(t, n)
  local there = math.min(t.a, n)
  t.a, t.o = t.a - there, t.o + n - there
end

-- KNOWN is how long a hold that was released or has expired is known, in ms.
local KNOWN = 3600000

-- finish ends a hold: s sold, r released, e expired. Its first write is one that a full
-- Redis takes; it then takes the others of the script as well.
local function finish(id, r, state, now)
  local units = 0
  for sku, n in string.gmatch(r.lines, '([^=,]+)=(%d+)') do
    local t = stock_of(sku)
    t.h, units = t.h - n, units + n
    if state == 's' then t.s = t.s + n else give(t, tonumber(n)) end
  end
  redis.call('ZREM', DUE, id)
  if state ~= 's' then
    local field = user_field(r.user)
    local had, last = units_of(field)
    set_units(field, had - units, last)
    redis.call('ZADD', DUE, int(now + KNOWN), id)
  end
  r.state, r.ended = state, int(now)
  return store(id, r)
end

-- forget takes an ended one out of its user's list and out of the reservations.
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

-- return_due gives back at most so many holds whose time is over, or forgets what ended
-- long ago, and says how many: as many as the bound means that there may be more.
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

-- next_due is how long until the next hold is over, or something is to be forgotten, in
-- ms; -1 if neither is.
local function next_due(now)
  local next = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  return next[2] and math.max(tonumber(next[2]) - now, 0) or -1
end
