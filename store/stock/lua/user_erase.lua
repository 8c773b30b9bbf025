-- Takes a user out of the ledger: releases holds, and forgets ended reservations, that were
-- made up to a time. Sold ones stay. It works from the newest reservation to the oldest, in
-- bounded steps. Running it twice is the same as once.
-- KEYS: 1 sale, 2 stock, 3 reservations, 4 due, 5 orders (zset)
-- ARGV: 1 run (see run_id), 2 user, 3 the time in ms, 4 where to go on ('' for the newest), 5 most
--       reservations to look at, 6 partitions of the sale (see unusable)
-- RETURNS: {1 done, where to go on ('' at the end), holds that were released, other
--          reservations that were forgotten, sold ones, those of them that
--          were sold up to the time and are not on record}, {4, 5, 6, 14 as unusable}
-- @include lua/part_sale.lua
-- @include lua/part_due.lua
local ORDERS = KEYS[5]
local run, user, upto, id, most, partitions = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]), ARGV[6]

local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'partitions')
local why = unusable(s[1], s[2], s[3], run, s[4], partitions)
if why then return { why } end
local now, field = now_ms(), user_field(user)
if redis.call('HEXISTS', RESERVATIONS, field) == 0 then return { 1, '', 0, 0, 0, 0 } end
local released, forgotten, sold, waiting = 0, 0, 0, 0
if id == '' then
  local _, last = units_of(field)
  id = last
end
for _ = 1, most do
  local r = reservation(id)
  if not r or r.user ~= user then
    id = ''
    break
  end
  local before = r.prev
  if r.state == 's' then
    sold = sold + 1
    if tonumber(r.ended) <= upto and redis.call('ZSCORE', ORDERS, id) then waiting = waiting + 1 end
  elseif tonumber(r.created) <= upto then
    if r.state == 'h' then
      finish(id, r, 'r', now)
      released = released + 1
    else
      forgotten = forgotten + 1
    end
    forget(id, r)
  end
  id = before
end
local _, last = units_of(field)
if last == '' then
  records[field], gone[#gone + 1] = nil, field
end
save()
if last == '' then redis.call('HSET', SALE, 'erased', '1') end
return { 1, id, released, forgotten, sold, waiting }
