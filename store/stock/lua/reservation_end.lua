-- Confirms and releases holds for several callers, each hold once: a repeat gets the same
-- answer. Or extends holds, but not beyond max_hold from their making. A hold whose time is over
-- expires here, if no sweep has returned it yet. While a load compares the partition with the record,
-- it confirms and extends holds that are here: held and sold units together stay what they were.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 orders (zset), then the
--       idempotency record of each caller that wants one
-- ARGV: 1 run (see run_id), 2 lifetime of the idempotency records in ms, 3.. of each
--       caller in turn the reservation's id; s to confirm or r to release and, right
--       behind that letter, the user who must have made it, if that matters, or h and for how
--       long from now it is to be held in ms; the digest of the body ('' without a record);
--       and the id of this request
-- RETURNS: {1 a reservation has ended as asked or is unknown, or 0, {version}, each caller's answer},
--          {4, 5, 6 as unusable}. An answer is
--          {1 it has ended as asked, the reservation, 1 its order is not on record},
--          {2 the same, by a replay}, {3 other body}, {5 the load must end first}, {7 unknown},
--          {8 it is not held, the reservation}
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
-- @include lua/part_crowd.lua
local ORDERS = KEYS[5]
local run, ttl, first = ARGV[1], ARGV[2], 3

local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'max_hold')
local loading = s[2] == '@' .. run_id(run)
local why = unusable(s[1], not loading and s[2], s[3], loading and '' or run)
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
  if key and not old then record(key, digest .. request .. text, ttl) end
  return { again, text, order_waits(id) }
end

local answers = each_caller(first, { s[1] }, finish_of)
save()
if #sold > 0 then redis.call('ZADD', ORDERS, unpack(sold)) end
if unknown then answers[1] = 1 end
return answers
