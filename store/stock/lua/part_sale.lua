-- One partition of a sale: its stock and its reservations. A sku's stock is "<available> <held>
-- <sold> <oversold>". The hash of reservations (the ledger) has by its id each reservation,
-- "<state>|<user>|<created>|<expires>|<ended>|<the user's reservation before>|
-- <sku>=<units>,...", with "|<the user's reservation after>" if there is one, and by u:<name>
-- each user, "<units> <last reservation>".
-- Changes are collected, and written by save, which must come at the end.
-- KEYS: 1 sale (hash), 2 stock (hash), 3 reservations (hash), 4 due (zset)
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- @include lua/part_run.lua
local SALE, STOCK, RESERVATIONS, DUE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local tuples, touched, records, gone, gave, owes = {}, {}, {}, {}, false, false

-- int writes a number as text; Lua itself would write a large one with an exponent. It keeps the
-- texts, because a script writes the same few numbers again and again.
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

-- stock_of gives a sku's numbers to read and change; an unknown sku has zeros.
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

-- reservation reads a reservation as this script has it by now; nil: there is none.
local function reservation(id)
  return id ~= '' and parse(records[id] or redis.call('HGET', RESERVATIONS, id)) or nil
end

-- join appends a new reservation to its user's list: the user's last reservation so far gets the
-- new one as its next. link completes that for last reservations that were not read yet, all in
-- one read.
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

-- user_field is a user's field. units_of reads how many units the user has, held and sold, and the
-- user's last reservation; text is the field's value (false: none) if the caller has read it.
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
