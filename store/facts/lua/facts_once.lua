-- Appends facts to a lane, of each id once.
-- KEYS: 1 begins the keys of the lane's slot, 2 a key that never exists
-- ARGV: 1 ms for which ids are remembered, then of each fact six: the begin of its id, which names the hash in which it is
--       remembered, and the rest of it, type, key, when it happened in ms or '' for now, and its data
-- RETURNS: {how many were appended}
-- @include lua/clock.lua
local P, NEVER = string.sub(KEYS[1], 1, -5), KEYS[2]
-- @include lua/fact_append.lua
local keep = tonumber(ARGV[1])
redis.call('DEL', NEVER) -- a script whose first write frees memory is not refused by a full Redis
local ms, appended = math.floor(now_us() / 1000), 0
for i = 2, #ARGV, 6 do
  local told = P .. 'facts:done:' .. ARGV[i]
  if redis.call('HSETNX', told, ARGV[i + 1], '1') == 1 then
    redis.call('PEXPIRE', told, int(keep))
    append_fact(ms, ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5])
    appended = appended + 1
  end
end
if appended > 0 then save_facts() end
return { appended }
