-- Confirms or releases a hold, once: said again it answers the same. A hold
-- whose time is over expires here at the latest.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 orders (zset), then
--       the idempotency record, if one is wanted
-- ARGV: 1 run (see run_id), 2 id, 3 s to confirm or r to release, 4 digest of the body,
--       5 lifetime of the idempotency record in ms, 6 id of this request
-- RETURNS: {1 it is so, version, the reservation, 1 its order waits for the record},
--          {2 the same, by a replay}, {3 other body}, {4, 5, 6 as unusable},
--          {7 unknown}, {8 it is not held, version, the reservation}
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
local ORDERS, ONCE = KEYS[5], KEYS[6]
local run, id, wanted, digest, ttl, request = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id')
local version = s[1]
local why = unusable(version, s[2], s[3], run)
if why then return { why } end
local status = 1
local old = ONCE and redis.call('GET', ONCE)
if old then
  if string.sub(old, 1, #digest) ~= digest then return { 3 } end
  if string.sub(old, #digest + 1) ~= request then status = 2 end
end
local text = redis.call('HGET', RESERVATIONS, id)
local r = parse(text)
if not r then return { 7 } end
local now = now_ms()
if r.state == 'h' then
  local state = now < tonumber(r.expires) and wanted or 'e'
  text = finish(id, r, state, now)
  if state == 's' then redis.call('ZADD', ORDERS, int(now), id) end
  save()
end
if r.state ~= wanted then return { 8, version, text } end
if ONCE and not old then redis.call('SET', ONCE, digest .. request, 'PX', ttl) end
return { status, version, text, redis.call('ZSCORE', ORDERS, id) and 1 or 0 }
