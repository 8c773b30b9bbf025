-- One partition of a sale: who may work on it, its stock, and the holds that are
-- due. A sku's stock is "<available> <held> <sold> <oversold>", a reservation
-- "<state>|<user>|<created>|<expires>|<ended>|<sku>=<units>,...". What changes in
-- the stock is kept until save_stock, which must come at the end.
-- KEYS: 1 sale (hash), 2 stock (hash), 3 users (hash), 4 reservations (hash),
--       5 due (zset)
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local SALE, STOCK, USERS, RESERVATIONS, DUE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local tuples, touched, gave = {}, {}, false

-- Lua would write a large number with an exponent: all text of numbers is made here.
local function int(n) return string.format('%.0f', n) end

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- shut says why nobody may work here: 4 there is no such sale, 5 it is being
-- read from the record, 6 it was made in another run of this server.
local function shut(version, closed, made_in, run)
  if not version then return 4 end
  if closed then return 5 end
  if run ~= '' and made_in ~= run then return 6 end
end

local function load_stock(skus)
  if #skus == 0 then return end
  local texts = redis.call('HMGET', STOCK, unpack(skus))
  for i, sku in ipairs(skus) do
    local a, h, s, o = string.match(texts[i] or '', '^(%d+) (%d+) (%d+) (%d+)$')
    tuples[sku] = a and { a = tonumber(a), h = tonumber(h), s = tonumber(s), o = tonumber(o) } or false
  end
end

-- stock_of gives a sku's numbers to read and change; one that is not there has none.
local function stock_of(sku)
  if tuples[sku] == nil then load_stock({ sku }) end
  touched[sku] = true
  tuples[sku] = tuples[sku] or { a = 0, h = 0, s = 0, o = 0 }
  return tuples[sku]
end

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

local function save_stock()
  local args = {}
  for sku in pairs(touched) do
    local t = tuples[sku]
    args[#args + 1] = sku
    args[#args + 1] = int(t.a) .. ' ' .. int(t.h) .. ' ' .. int(t.s) .. ' ' .. int(t.o)
  end
  if #args > 0 then redis.call('HSET', STOCK, unpack(args)) end
  if gave then redis.call('HINCRBY', SALE, 'returns', 1) end
end

local function parse(text)
  local s, u, c, e, d, l = string.match(text or '', '^(%a)|([^|]*)|(%d+)|(%d+)|(%d+)|(.*)$')
  return s and { state = s, user = u, created = c, expires = e, ended = d, lines = l }
end

local function store(id, r)
  local text = r.state .. '|' .. r.user .. '|' .. r.created .. '|' .. r.expires .. '|' .. r.ended .. '|' .. r.lines
  redis.call('HSET', RESERVATIONS, id, text)
  return text
end

local function count_units(user, n)
  if redis.call('HINCRBY', USERS, user, int(n)) <= 0 then redis.call('HDEL', USERS, user) end
end

-- finish ends a hold: s sold, r released, e expired.
local function finish(id, r, state, now)
  local units = 0
  for sku, n in string.gmatch(r.lines, '([^=,]+)=(%d+)') do
    local t = stock_of(sku)
    t.h, units = t.h - n, units + n
    if state == 's' then t.s = t.s + n else give(t, tonumber(n)) end
  end
  if state ~= 's' then count_units(r.user, -units) end
  redis.call('ZREM', DUE, id)
  r.state, r.ended = state, int(now)
  return store(id, r)
end

-- return_due gives back at most so many holds whose time is over, and says how
-- many: as many as the bound means that there may be more.
local function return_due(now, bound)
  local ids = redis.call('ZRANGEBYSCORE', DUE, '-inf', int(now), 'LIMIT', 0, bound)
  if #ids == 0 then return 0 end
  local texts = redis.call('HMGET', RESERVATIONS, unpack(ids))
  for i, id in ipairs(ids) do
    local r = parse(texts[i])
    if r and r.state == 'h' then finish(id, r, 'e', now) else redis.call('ZREM', DUE, id) end
  end
  return #ids
end

-- next_due is how long until the next hold is over, in ms; -1 without one.
local function next_due(now)
  local next = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  return next[2] and math.max(tonumber(next[2]) - now, 0) or -1
end
