-- Appends to a lane that events are over, of each event once.
-- KEYS: 1 begins the keys of the lane's slot, 2 a key that never exists
-- ARGV: 1 ms for which it is remembered, 2 type of the fact, then of each event two: its id, and the fact's data
-- RETURNS: {how many were appended}
-- @include lua/clock.lua
local P, NEVER = string.sub(KEYS[1], 1, -5), KEYS[2]
-- @include lua/fact_append.lua
local keep, typ = tonumber(ARGV[1]), ARGV[2]
redis.call('DEL', NEVER) -- a script whose first write frees memory is not refused by a full Redis
local ms, appended = math.floor(now_us() / 1000), 0
for i = 3, #ARGV, 2 do
  local told = P .. 'facts:done:' .. string.sub(ARGV[i], 1, 6)
  if redis.call('HSETNX', told, string.sub(ARGV[i], 7), '1') == 1 then
    redis.call('PEXPIRE', told, int(keep))
    append_fact(ms, typ, ARGV[i], '', ARGV[i + 1])
    appended = appended + 1
  end
end
if appended > 0 then save_facts() end
return { appended }
