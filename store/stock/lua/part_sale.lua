-- One partition of a sale: who may work on it, its stock and its reservations. A sku's
-- stock is "<available> <held> <sold> <oversold>". In the key of reservations one is,
-- by its id, "<state>|<user>|<created>|<expires>|<ended>|<the user's one before>|
-- <sku>=<units>,...", with "|<the user's one after>" if there is one, and a user is, by
-- u:<name>, "<units> <last reservation>".
-- What changes is kept until save, which must come at the end.
-- KEYS: 1 sale (hash), 2 stock (hash), 3 reservations (hash), 4 due (zset)
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- @include lua/part_run.lua
local SALE, STOCK, RESERVATIONS, DUE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local tuples, touched, records, gone, gave, owes = {}, {}, {}, {}, false, false

-- Lua would write a large number with an exponent: all text of numbers is made here. The
-- same few come again and again.
local texts = {}
local function int(n)
  local text = texts[n] or string.format('%d', n)
  texts[n] = text
  return text
end

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
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

local function parse(text)
  if not text then return nil end
  local s, u, c, e, d, p, l, n = string.match(text, '^(%a)|([^|]*)|(%d+)|(%d+)|(%d+)|([^|]*)|([^|]*)|?(.*)$')
  return s and { state = s, user = u, created = c, expires = e, ended = d, prev = p, lines = l, next = n }
end

local function store(id, r)
  local text = table.concat({ r.state, r.user, r.created, r.expires, r.ended, r.prev, r.lines }, '|')
  if r.next and r.next ~= '' then text = text .. '|' .. r.next end
  records[id] = text
  return text
end

-- reservation reads one that may have changed in this step; nil: there is none.
local function reservation(id)
  return id ~= '' and parse(records[id] or redis.call('HGET', RESERVATIONS, id)) or nil
end

-- join puts a new reservation after the user's last one, which has none after it; link
-- writes that down for all who joined since.
local lasts, news = {}, {}
local function join(last, id)
  if records[last] then
    records[last] = records[last] .. '|' .. id
  elseif last ~= '' then
    local n = #lasts + 1
    lasts[n], news[n] = last, id
  end
end

local function link()
  if #lasts == 0 then return end
  for i, text in ipairs(redis.call('HMGET', RESERVATIONS, unpack(lasts))) do
    if text then records[lasts[i]] = text .. '|' .. news[i] end
  end
  lasts, news = {}, {}
end

-- user_field is where a user is; units_of reads how many units he has, held and sold,
-- and his last reservation; text is what the field says, or false, if it was read already.
local function user_field(user) return 'u:' .. user end

local function units_of(field, text)
  text = records[field] or text
  if text == nil then text = redis.call('HGET', RESERVATIONS, field) end
  if not text then return 0, '' end
  local n, last = string.match(text, '^(%d+) (.*)$')
  return tonumber(n), last
end

local function set_units(field, n, last) records[field] = int(math.max(n, 0)) .. ' ' .. last end

local function save()
  link()
  local args, n = {}, 0
  for sku in pairs(touched) do
    local t = tuples[sku]
    owes = owes or t.o > 0
    args[n + 1], args[n + 2], n = sku, string.format('%d %d %d %d', t.a, t.h, t.s, t.o), n + 2
  end
  if n > 0 then redis.call('HSET', STOCK, unpack(args)) end
  args, n = {}, 0
  for field, text in pairs(records) do
    args[n + 1], args[n + 2], n = field, text, n + 2
  end
  if n > 0 then redis.call('HSET', RESERVATIONS, unpack(args)) end
  if #gone > 0 then redis.call('HDEL', RESERVATIONS, unpack(gone)) end
  if gave then redis.call('HINCRBY', SALE, 'returns', 1) end
  if owes then redis.call('HSET', SALE, 'owes', 1) end
end
