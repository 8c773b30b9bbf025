-- Makes changes of the values or counters of one group. A process numbers its runs, so that a run whose answer was
-- lost may be sent again: what had an effect is answered as before, and a run that arrives after a later one of its
-- process does nothing. Each key is read once and written once, at the end: while a slot moves, a key that a script
-- has deleted can't be touched again.
-- KEYS: 1 the last run of this process (string), 2 the names that are in use (zset: name to when it may be gone, in
--       ms), then of each call the value or counter (string), and of an add with an Idempotency-Key its record
--       (string) after it
-- ARGV: 1 number of the run, 2 lifetime of the last run in ms, 3 most names, 4 lifetime of a record in ms, then of
--       each call five: what, name, and three of its own (see CALLS)
-- RETURNS: {0} a later run was made before, or {1, then of each call a text: its status and what belongs to it}
-- @include lua/clock.lua
-- @include lua/match.lua
local LAST, NAMES = KEYS[1], KEYS[2]
local number, keep, most, record_ttl = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]

local before = {}
local last = redis.call('GET', LAST)
if last then
  local n, answers = string.match(last, '^(%d+) (.*)$')
  if number < tonumber(n) then return { 0 } end
  if number == tonumber(n) then
    for answer in string.gmatch(answers, '([^;]*);') do before[#before + 1] = answer end
  end
end
-- A full Redis refuses this write, if it is the first, and none of those after the next one.
local written = redis.pcall('SET', LAST, last or '0 ', 'PX', keep)
local full = type(written) == 'table' and written.err
if full and not string.find(full, 'OOM ', 1, true) then return written end
if full then redis.call('PEXPIRE', LAST, keep) end
local us = now_us()
local ms = math.floor(us / 1000)
-- @include lua/part_names.lua

-- CALLS answer with a status, and what belongs to it: 1 done, 2 the condition does not hold, 3 there is no room for
-- another name, 4 out of bounds, 5 not started, 6 ended, 7 another body, 8 done before, 9 there is no such counter,
-- 10 Redis is full.
local CALLS = {}
-- @include lua/part_value.lua
-- @include lua/part_counter.lua

local answers, saved, k = { 1 }, {}, 3
for i = 5, #ARGV, 5 do
  local what, digest = ARGV[i], ARGV[i + 4]
  local key, record = KEYS[k], nil
  k = k + 1
  if what == 'add' and digest ~= '' then
    record = KEYS[k]
    k = k + 1
  end
  local answer = before[#saved + 1]
  if not answer or answer == '' then
    answer = full and what ~= 'delete' and what ~= 'remove' and '10'
      or CALLS[what](key, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], digest, record)
  end
  answers[#answers + 1] = answer
  saved[#saved + 1] = (string.sub(answer, 1, 2) == '1,' or answer == '1') and answer or ''
end
write_all()
redis.call('SET', LAST, int(number) .. ' ' .. table.concat(saved, ';') .. ';', 'PX', keep)
return answers
