-- Reserves for several callers (lua/stock_reserve.lua): reads what they need, and may end the script.
-- KEYS: 5 orders (zset)
-- ARGV: 1 run (see run_id), 2 partitions of the sale, 3 lifetime of the idempotency records in ms, 4 most due holds to
--       return, and on: of each caller four
-- RETURNS: {4, 5, 6 as unusable}, {7 the sale has another number of partitions}; otherwise it only defines functions
-- TAKES: first, where the arguments of the callers begin; lua/part_sale.lua, lua/part_due.lua, lua/part_crowd.lua
-- GIVES: reserve_all, now, made
local ORDERS = KEYS[5]
local run, partitions, ttl, bound = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'terms', 'used')
local why = unusable(s[1], s[2], s[3], run)
if why then return { why } end
local starts, ends, limit, hold, idle, spread = string.match(s[4], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
starts, ends, limit, hold, idle = tonumber(starts), tonumber(ends), tonumber(limit), tonumber(hold), tonumber(idle)
if spread ~= partitions then return { 7 } end
local now = now_ms()
local expires = hold > 0 and now + hold or 0
local at, till = int(now), int(expires)
local made, returned, soonest = {}, nil, nil
local closed = now < starts and { 9, starts - now } or now >= ends and { 10, 0 }
if not closed and idle > 0 and now >= math.max(starts, tonumber(s[5] or 0)) + idle then closed = { 10, 1 } end

-- The stock, reservations and users of all callers are read at once; callers with equal lines
-- share them.
local fields, skus, wanted = {}, {}, {}
local function read_lines(text)
  local lines, units = {}, 0
  for sku, n in string.gmatch(text, '([^=,]+)=(%d+)') do
    lines[#lines + 1], units = { sku = sku, n = tonumber(n) }, units + tonumber(n)
    if tuples[sku] == nil then skus[#skus + 1], tuples[sku] = sku, false end
  end
  lines.units, wanted[text] = units, lines
end
for i = first, #ARGV, ARGS do
  local n = #fields + 1
  fields[n], fields[n + 1] = ARGV[i + 1], user_field(ARGV[i])
  if not wanted[ARGV[i + 3]] then read_lines(ARGV[i + 3]) end
end
load_stock(skus)
for _, lines in pairs(wanted) do
  for i, line in ipairs(lines) do
    line.stock = tuples[line.sku]
    lines.unknown = lines.unknown or not line.stock and i
  end
end
local known = redis.call('HMGET', RESERVATIONS, unpack(fields))
read_records()

-- short gives the status that refuses a user these lines, nil for none; then the user's units and
-- last reservation.
local function short(lines, field, text)
  local had, last = units_of(field, text)
  if limit > 0 and had + lines.units > limit then return 11, had end
  for i = 1, #lines do
    if lines[i].stock.a < lines[i].n then return 12, had end
  end
  return nil, had, last
end

local function refusal(status, lines, had)
  if returned == bound then return { 13 } end
  if status == 11 then return { 11, math.max(limit - had, 0) } end
  soonest = soonest or next_due(now)
  local answer = { 12, #made > 0 and hold > 0 and (soonest < 0 or hold < soonest) and hold or soonest }
  for i, line in ipairs(lines) do answer[i + 2] = line.stock.a end
  return answer
end

-- The text of a reservation is the one that store of lua/part_sale.lua writes.
local head = hold > 0 and 'h|' or 's|'
local middle = '|' .. at .. '|' .. till .. '|' .. (hold > 0 and '0' or at) .. '|'
local kind, score = hold > 0 and 'h' or 's', hold > 0 and till or at
local function reserve(i, n, key)
  local id, digest, request = ARGV[i + 1], key and string.sub(ARGV[i + 2], 1, DIGEST), key and string.sub(ARGV[i + 2], DIGEST + 1)
  local text, field = ARGV[i + 3], fields[2 * n]
  local lines, old, other = wanted[text], recorded(key, digest)
  if other then return { other } end
  if old and string.sub(old, 1, #request) ~= request then return { 2, tonumber(string.sub(old, #request + 1)) } end
  local mine = parse(known[2 * n - 1])
  if mine then return mine.lines ~= text and { 3 } or { key and not old and 2 or 1, tonumber(mine.expires), tonumber(mine.created) } end
  if lines.unknown or closed then return lines.unknown and { 8, lines.unknown } or closed end
  local status, had, last = short(lines, field, known[2 * n])
  if status and not returned then
    returned = return_due(now, bound)
    status, had, last = short(lines, field, known[2 * n])
  end
  if status then return refusal(status, lines, had) end
  for l = 1, #lines do
    local line, t = lines[l], lines[l].stock
    t.a, t[kind], touched[line.sku] = t.a - line.n, t[kind] + line.n, true
  end
  join(last, id)
  records[id] = head .. ARGV[i] .. middle .. last .. '|' .. text
  set_units(field, had + lines.units, id)
  local m = #made + 1
  made[m], made[m + 1] = score, id
  if key then record(key, digest .. request .. till, ttl) end
  return 1
end

-- reserve_all reserves for all callers, and gives the script's answer.
local function reserve_all()
  local answers = each_caller(first, { s[1], now, expires }, reserve)
  save()
  if #made > 0 then redis.call('ZADD', hold > 0 and DUE or ORDERS, unpack(made)) end
  if #made > 0 and idle > 0 then redis.call('HSET', SALE, 'used', at) end
  return answers
end
