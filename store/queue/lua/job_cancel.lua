-- Ends a job that waits, wherever it is; one that runs is told by its next
-- renewal and ends with whatever result it gives.
-- KEYS: 1 the shard's live records
-- ARGV: 1 id, 2 retention of marks in ms, 3 retention of groups in ms
-- RETURNS: 1 cancelled, 2 it runs and will be, 0 there is no such live job
-- @include lua/record.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
-- @include lua/part_bucket.lua
-- @include lua/part_group.lua
-- @include lua/part_end.lua
local id, retention, group_ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local r = record_of(id)
if not r then return 0 end
if r.state ~= 'Q' then
  r.state = 'Z'
  set_record(id, r)
  save_records()
  return 2
end
local place, rest = string.sub(r.owner, 1, 1), string.sub(r.owner, 2)
local eid = string.match(rest, '^%d+%-%d+')
local e
if STREAM[place] then
  e = entry_at(STREAM[place], eid)
  redis.call('XACK', STREAM[place], 'g', eid)
  redis.call('XDEL', STREAM[place], eid)
elseif place == 'p' then
  e = unpark(string.sub(rest, #eid + 2), eid)
else
  e = take_body(id)
  if place == 'l' then
    redis.call('ZREM', LATER, id)
  elseif e and redis.call('ZREM', P .. 'wait:' .. e.k, id) == 1 then
    redis.call('HINCRBY', STATS, 'blocked', -1)
  end
end
close(e or { i = id, k = '', u = '', g = '', a = '' }, 'C', 'cancelled', retention)
save(group_ttl)
return 1
