-- Gives a job that waits another payload, and lets it run as soon as it may: one that has a time
-- of its own then, any other one that is delayed at once. A job that a
-- process has claimed, or that is no longer there, stays as it is.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 where the job is (a letter of a stream, p:<name> parked, l:<time> delayed),
--       2 its entry ('' of a delayed job), 3 its text, 4 the new payload
-- RETURNS: {1 it has the payload, or 0; bytes that the shard's parked jobs take or -1}
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_text.lua
-- @include lua/part_stream.lua
-- @include lua/part_admit.lua
-- @include lua/part_later.lua
-- @include lua/part_parked_bytes.lua
local where, eid, text, payload = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local letter, name, ms, bytes = string.sub(where, 1, 1), string.sub(where, 3), math.floor(now_us() / 1000), -1
local e = parse(text)
e.p = payload

if letter == 'l' then
  local list = P .. 'later:' .. name
  if redis.call('LREM', list, 1, text) == 0 then return { 0, -1 } end
  redis.call('HINCRBY', STATS, 'later', -1)
  if redis.call('EXISTS', list) == 0 then redis.call('ZREM', LATER, name) end
  if (tonumber(e.s) or 0) > ms then put_later(e, tonumber(e.s), ms) else admit(e, front(e), ms) end
  return { 1, -1 }
end
local stream = STREAM[letter] or P .. 'parked:' .. name
if text_at(stream, eid) ~= text then return { 0, -1 } end
-- A stream that nobody has read has no group yet, which is an error without a place 1.
if letter ~= 'p' and redis.pcall('XPENDING', stream, 'g', eid, eid, 1)[1] then return { 0, -1 } end
redis.call('XDEL', stream, eid)
dated(e, eid)
if letter ~= 'p' then
  put_stream(e, front(e))
  return { 1, -1 }
end
bytes = count_parked(text, -1)
if redis.call('HINCRBY', P .. 'parkedn', name, -1) <= 0 then
  redis.call('HDEL', P .. 'parkedn', name)
  redis.call('DEL', stream)
end
admit(e, front(e), ms)
return { 1, bytes }
