-- Appends facts to a lane that the steps of another slot have left, each once, in their order. Facts that were left together have one
-- id, and are moved by one call. It also forgets some sources whose last fact is so old that no older one would be moved.
-- KEYS: 1 begins the keys of the lane's slot, 2 a key that never exists
-- ARGV: 1 the source: where they were left, 2 for how long the last fact of a source is remembered in ms, then of each fact
--       five: its id there, type, key, when it happened in ms, and its data
-- RETURNS: {how many were appended}
-- @include lua/clock.lua
local P, NEVER = string.sub(KEYS[1], 1, -5), KEYS[2]
-- @include lua/fact_append.lua
local FROM, source, keep = P .. 'facts:from', ARGV[1], tonumber(ARGV[2]) -- the last id that was moved, by source
redis.call('DEL', NEVER) -- a script whose first write frees memory is not refused by a full Redis
local ms, appended = math.floor(now_us() / 1000), 0

local function parts(id)
  local time, number = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(time), tonumber(number)
end

-- If the lane has forgotten the source, facts that are older than its memory may have been moved.
local from_ms, from_n = parts(redis.call('HGET', FROM, source) or int(math.max(ms - keep, 0)) .. '-0')
local last
for i = 3, #ARGV, 5 do
  local id_ms, id_n = parts(ARGV[i])
  if id_ms > from_ms or id_ms == from_ms and id_n > from_n then
    append_fact(ms, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
    last, appended = ARGV[i], appended + 1
  end
end
if appended > 0 then
  redis.call('HSET', FROM, source, last)
  -- Of sources that are gone, such as sales that are over, each call that may add one looks at four. They are forgotten a day later
  -- than they could be, because the clocks of masters differ.
  local before, some = ms - keep - 86400000, redis.call('HRANDFIELD', FROM, 4, 'WITHVALUES')
  for i = 1, #some, 2 do
    if parts(some[i + 1]) < before then redis.call('HDEL', FROM, some[i]) end
  end
  save_facts()
end
return { appended }
