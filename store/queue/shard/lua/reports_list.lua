-- Lists reports, newest first by the part of time in their jobs' ids, and in a part by the
-- rest of the ids, downwards.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 number of the part where the list begins, 2 rest of an id: of that part only
--       reports below it are listed, 3 most reports, 4 most parts to look at
-- RETURNS: {1 there may be more or 0, number of the part and rest of the id where the list
--          goes on, then id, report and mark of each, 0: it is not cancelled}
-- @include lua/clock.lua
-- @include lua/part_shard.lua
local number, below, most, parts = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local out, HEAD = { 0, '', '' }, 3

local function reports_of(part)
  -- bounded: it has the events of a shard that were accepted within a 32nd of a second
  local all, texts, rests = redis.call('HGETALL', P .. 'report:' .. part), {}, {}
  for i = 1, #all, 2 do
    texts[all[i]] = all[i + 1]
    if string.sub(all[i], -1) ~= '!' and all[i] < below then rests[#rests + 1] = all[i] end
  end
  table.sort(rests, function(a, b) return a > b end)
  return rests, texts
end

-- list lists the reports of the found parts. It returns 1 if some are left.
local function list(found)
  for i = 1, #found, 2 do
    if tonumber(found[i + 1]) ~= number then number, below = tonumber(found[i + 1]), '~' end
    local rests, texts = reports_of(found[i])
    for _, rest in ipairs(rests) do
      if #out == HEAD + 3 * most then return 1 end
      local n = #out
      out[n + 1], out[n + 2], out[n + 3] = found[i] .. rest, texts[rest], tonumber(texts[rest .. '!'] or 0)
      below = rest
    end
    below = ''
  end
  return #found == 2 * parts and 1 or 0
end

out[1] = list(redis.call('ZREVRANGEBYSCORE', P .. 'reported', int(number), '-inf', 'WITHSCORES', 'LIMIT', 0, parts))
out[2], out[3] = number, below
return out
