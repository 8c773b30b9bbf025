-- Looks at dead letters, newest first, for those of a reason, a type, an app and a callers' queue. A letter has
-- an app or a queue, not both.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 newest id to look at, as XREVRANGE takes it, 2 most letters to look at, 3 most to
--       find, 4 reason or '', 5 type or '', 6 app, its topic or '', 7 callers' queue or '', 8 what to
--       answer of each: w the whole letter, i the ids of letter and job, g its reason and class, or
--       '' nothing, 9 bytes of whole letters after which it stops
-- RETURNS: {how many it found, the id of the last letter it looked at or '' if that was the oldest, what it
--          found; whole letters as XREVRANGE has them}
-- @include lua/part_shard.lua
-- @include lua/part_dead.lua
local look, most, reason, kind = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local app, queue, what = ARGV[6], ARGV[7], ARGV[8]
local classless = kind == '' and app == '' and queue == ''

local function fits(v)
  if reason ~= '' and v[20] ~= reason then return false end
  if classless then return true end
  local its_kind, its_app = string.match(v[CLASS] or '', '^(.-)\31(.*)$')
  if kind ~= '' and kind ~= its_kind then return false end
  local its_queue = queue_of(v)
  if its_queue then return app == '' and (queue == '' or queue == its_queue) end
  if queue ~= '' then return false end
  return app == '' or app == its_app or app == string.match(its_app or '', '^[^/]*')
end

local STEP, bytes = 50, tonumber(ARGV[9])
local count, size, seen, last, found, from = 0, 0, 0, '', {}, ARGV[1]

-- take adds a letter to the answer.
local function take(one)
  local v = one[2]
  count = count + 1
  found[count] = what == 'w' and one or what == 'i' and { one[1], v[2] } or what == 'g' and v[20] .. '\31' .. (v[CLASS] or '') or nil
  if what == 'w' then
    for _, text in ipairs(v) do size = size + #text end
  end
end

for _ = 1, math.ceil(look / STEP) do
  local letters = redis.call('XREVRANGE', DEAD, from, '-', 'COUNT', STEP)
  for n, one in ipairs(letters) do
    seen = seen + 1
    if fits(one[2]) then take(one) end
    from = '(' .. one[1]
    if seen == look then
      last = one[1]
    elseif count == most or size >= bytes then
      local more = n < #letters or #letters == STEP and #redis.call('XREVRANGE', DEAD, from, '-', 'COUNT', 1) > 0
      if more then last = one[1] end
      letters = {}
    end
    if last ~= '' then break end
  end
  if last ~= '' or #letters < STEP then break end
end
return { count, last, found }
