-- Claims the next jobs of a shard for a life.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local FIRST = 16 -- entries of the first reading; it tells how large they are
local OTHERS = 64 -- readings that bring no job
local given, places, bytes, due, drop = {}, {}, 0, 0, {}

-- take adds an entry to the answer: its place, its text or, when this call itself
-- stored it, its number in the call, and what is stored under its guard.
local function take(letter, eid, text, number)
  bytes = bytes + #text
  if text == WAKE then
    due = 1
    return disown(letter, eid)
  end
  local kind, guard = string.byte(text, 1, 1), ''
  if kind == 70 or kind == 71 then -- F, G
    local name = string.match(text, '^.' .. string.rep('[^\31]*\31', 5) .. '([^\31]*)\31')
    if name ~= '' then guard = redis.call('GET', P .. 'guard:' .. name) or '' end
  end
  local n = #given
  given[n + 1], given[n + 2], given[n + 3] = letter .. eid, number or text, guard
  places[#places + 1] = letter .. eid
end

-- read claims at most `most` jobs of a stream and returns how many they were, and
-- whether there may be more. Entries that are no job do not count.
local function read(life, letter, most, budget, stored)
  local before, seen = #places, 0
  for _ = 1, most + OTHERS do
    local left = most - (#places - before)
    if left <= 0 or bytes >= budget then return #places - before, true end
    local n = math.min(left, FIRST)
    if seen > 0 then n = math.max(1, math.min(left, math.floor((budget - bytes) * seen / (bytes + 1)))) end
    local found = redis.call('XREADGROUP', 'GROUP', 'g', life, 'COUNT', n, 'STREAMS', STREAM[letter], '>')
    local entries = found and found[1] and found[1][2] or {}
    for _, one in ipairs(entries) do take(letter, one[1], one[2][2], stored[letter .. one[1]]) end
    seen = seen + #entries
    if #entries < n then return #places - before, false end
  end
  return #places - before, true
end

-- adopt claims an entry that a blocking read was given, unless others had it put
-- back since.
local function adopt(life, place)
  local letter, eid = string.sub(place, 1, 1), string.sub(place, 2)
  if redis.call('XCLAIM', STREAM[letter], 'g', life, 0, eid, 'JUSTID')[1] then
    local text = text_at(STREAM[letter], eid)
    if text then take(letter, eid, text) end
  end
end

-- claim takes from what came back and from what is new in turns, so that neither
-- starves the other. With room for one, `odd` (1 or 0, by the clock) says whose turn it is.
local function claim(life, most, odd, budget, stored)
  local left, n, more = most, 0, redis.call('XLEN', READY) > 0
  local turn = most > 1 and math.ceil(most / 2) or odd
  if more and turn > 0 then
    n, more = read(life, 'r', turn, budget, stored)
    left = left - n
  end
  if left > 0 then left = left - read(life, 'm', left, budget, stored) end
  if more and left > 0 then read(life, 'r', left, budget, stored) end
end
