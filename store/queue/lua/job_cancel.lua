-- Ends a job that waits, wherever it is; one that runs is told by the next renewal
-- and ends with whatever result it gives.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 id, 2 retention of tombstones in ms, 3 of groups, 4 of reports
-- RETURNS: 1 cancelled, 2 it runs and will be, 0 there is no such named job
-- @include lua/clock.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
-- @include lua/part_places.lua
-- @include lua/part_later.lua
-- @include lua/part_bucket.lua
-- @include lua/part_group.lua
-- @include lua/part_report.lua
-- @include lua/part_end.lua
-- @include lua/part_life.lua
local id, retention = ARGV[1], tonumber(ARGV[2])
local place = record_of(id)
if not place then return 0 end
local letter, rest = string.sub(place, 1, 1), string.sub(place, 2)
if letter == 'z' then return 2 end
local eid = string.match(rest, '^%d+%-%d+')
local e
if STREAM[letter] then
  local holder = redis.pcall('XPENDING', STREAM[letter], 'g', eid, eid, 1)[1] -- none if nobody has served the shard
  if holder and holder[2] ~= READER then
    set_record(id, 'z' .. place)
    redis.call('SADD', CANCELLED, id)
    save_records()
    return 2
  end
  e = entry_at(STREAM[letter], eid)
  disown(letter, eid)
elseif letter == 'p' then
  e = unpark(string.sub(rest, #eid + 2), eid)
elseif tonumber(place) then
  e = take_later(place, id)
else
  local number, key = string.match(rest, '^(%d+):(.*)$')
  e = take_line(key, number, id)
end
close(e or { i = id, k = '', u = '', g = '', a = '', r = '1' }, 'C', 'cancelled', retention)
save(tonumber(ARGV[3]), tonumber(ARGV[4]))
return 1
