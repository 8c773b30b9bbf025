-- Counts once that a user opened or dismissed an event's notification, and tells it in the same step.
-- KEYS: 1 begins the keys of the lane of facts, 2 the report's hash, 3 the counts (hash), which begins the names of the other hashes,
--       4 a key that never exists
-- ARGV: 1 the event, 2 its field in the report's hash, 3 number of its few hashes, 4 the user's bucket, 5 the user's digest, 6 'opened'
--       or 'dismissed', 7 the bit of that in what is noted of the user, 8 type of the fact, '' if it is not told, 9 the fact's data, a
--       JSON object without the event's type
-- RETURNS: 0 there is no such report, 1 the event's type counts none, 2 the user got no notification, 3 counted, 4 counted before
-- @include lua/clock.lua
local P, counts = string.sub(KEYS[1], 1, -5), KEYS[3]
-- @include lua/fact_append.lua
local event, field, few, bucket, user, what, bit, fact, data = unpack(ARGV)

-- The first write comes before the first read: a replica that is taken for the master refuses it, and does not say that it knows of no
-- such report. No full Redis refuses it, nor the writes after it.
redis.call('DEL', KEYS[4])
local report = redis.call('HGET', KEYS[2], field)
if not report then return 0 end
local typ, counted = string.match(report, '^.([^ +]*)(%+?)')
if counted == '' then return 1 end
local found, key = redis.call('HMGET', counts, 'opened', user), counts
if not found[1] then return 2 end
local noted = found[2]
for _, later in ipairs({ bucket % few, bucket }) do -- as recipients_note.lua notes them
  if noted then break end
  key = counts .. ':' .. later
  noted = redis.call('HGET', key, user)
end
if not noted then return 2 end
if math.floor(noted / bit) % 2 == 1 then return 4 end

redis.call('HINCRBY', key, user, bit)
redis.call('HINCRBY', counts, what, 1)
if fact ~= '' then
  append_fact(math.floor(now_us() / 1000), fact, event, '', '{"type":"' .. typ .. '",' .. string.sub(data, 2))
  save_facts()
end
return 3
