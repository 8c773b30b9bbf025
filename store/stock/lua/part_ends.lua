-- Confirms, releases and extends holds for several callers (lua/reservation_end.lua): reads what they need, and may end the
-- script.
-- KEYS: 5 orders (zset)
-- ARGV: 1 run (see run_id), 2 lifetime of the idempotency records in ms, 3 partitions of the sale (see unusable), and on: of each caller four
-- RETURNS: {4, 5, 6, 14 as unusable}; otherwise it only defines functions
-- TAKES: first, where the arguments of the callers begin; lua/part_sale.lua, lua/part_due.lua, lua/part_crowd.lua
-- GIVES: end_all
local ORDERS = KEYS[5]
local run, ttl, partitions = ARGV[1], ARGV[2], ARGV[3]

local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'max_hold', 'partitions')
local loading = s[2] == '@' .. run_id(run)
local why = unusable(s[1], not loading and s[2], s[3], loading and '' or run, s[5], partitions)
if why then return { why } end
local now = now_ms()
local ids, sold, waits, unknown = {}, {}, {}, false
for i = first, #ARGV, ARGS do ids[#ids + 1] = ARGV[i] end
local known = redis.call('HMGET', RESERVATIONS, unpack(ids))
read_records()

local function order_waits(id)
  return (waits[id] or redis.call('ZSCORE', ORDERS, id)) and 1 or 0
end

-- extend begins like finish of lua/part_due.lua.
local function extend(id, r, text, hold)
  local till = math.min(now + hold, tonumber(r.created) + tonumber(s[4] or 0))
  if till <= tonumber(r.expires) then return text end
  r.expires = int(till)
  set_due(id, r.expires)
  return store(id, r)
end

local function finish_of(i, n, key)
  local id, wanted, own, digest, request = ARGV[i], string.sub(ARGV[i + 1], 1, 1), string.sub(ARGV[i + 1], 2), ARGV[i + 2], ARGV[i + 3]
  local old, other = recorded(key, digest)
  if other then return { other } end
  local again = old and string.sub(old, 1, #request) ~= request and 2 or 1
  if old and wanted == 'h' then return { again, string.sub(old, #request + 1), 0 } end -- whatever became of it
  local text = records[id] or known[n] or old and string.sub(old, #request + 1) -- a forgotten one, as it ended
  local r = parse(text)
  local stays = r and (r.state == 's' and wanted == 's' or r.state == 'h' and wanted ~= 'r' and now < tonumber(r.expires))
  if loading and not stays then return { 5 } end
  if not r or wanted ~= 'h' and own ~= '' and own ~= r.user then
    unknown = true
    return { 7 }
  end
  local done = r.state == wanted and wanted ~= 'h' -- nothing changes, so that a repeat needs no record
  if r.state == 'h' and wanted == 'h' and now < tonumber(r.expires) then
    text = extend(id, r, text, tonumber(own))
  elseif r.state == 'h' then
    text = finish(id, r, now < tonumber(r.expires) and wanted or 'e', now)
    if r.state == 's' then
      sold[#sold + 1] = int(now)
      sold[#sold + 1] = id
      waits[id] = true
    end
  end
  if r.state ~= wanted then return { 8, text } end
  if key and not old and not done then record(key, digest .. request .. text, ttl) end
  return { again, text, order_waits(id) }
end

-- end_all gives the script's answer.
local function end_all()
  local answers = each_caller(first, { s[1] }, finish_of)
  save()
  if #sold > 0 then redis.call('ZADD', ORDERS, unpack(sold)) end
  if unknown then answers[1] = 1 end
  return answers
end
