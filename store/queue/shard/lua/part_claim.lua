-- Claims the next jobs of a shard for a session.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, STREAM, READY, WAKE, text_at, disown
-- GIVES: new_claim, take, reclaim, read, claim
local FIRST = 16 -- entries of the first reading; it tells how large they are
local OTHERS = 64 -- readings that bring no job

-- new_claim is what one call claims: at most `budget` bytes. stored are the entries that
-- the call itself made, by their places: two streams may have entries of one id.
local function new_claim(session, budget)
  return { session = session, budget = budget, stored = {}, given = {}, places = {}, bytes = 0, due = 0 }
end

-- take adds an entry to the answer: its place, its text or, when this call itself
-- stored it, its number in the call, and what is stored under its guard.
local function take(c, letter, eid, text)
  c.bytes = c.bytes + #text
  if text == WAKE then
    c.due = 1
    return disown(letter, eid)
  end
  local kind, guard, place = string.byte(text, 1, 1), '', letter .. eid
  if kind == 70 or kind == 71 then -- F, G
    local name = string.match(text, '^.' .. string.rep('[^\31]*\31', 5) .. '([^\31]*)\31')
    if name ~= '' then guard = redis.call('GET', P .. 'guard:' .. name) or '' end
  end
  local given, n = c.given, #c.given
  given[n + 1], given[n + 2], given[n + 3] = place, c.stored[place] or text, guard
  c.places[#c.places + 1] = place
end

-- read claims at most `most` jobs of a stream and returns how many they were, and
-- whether there may be more. Entries that are no job do not count.
local function read(c, letter, most)
  local before, seen = #c.places, 0
  for _ = 1, most + OTHERS do
    local left = most - (#c.places - before)
    if left <= 0 or c.bytes >= c.budget then return #c.places - before, true end
    local n = math.min(left, FIRST)
    if seen > 0 then n = math.max(1, math.min(left, math.floor((c.budget - c.bytes) * seen / (c.bytes + 1)))) end
    local found = redis.call('XREADGROUP', 'GROUP', 'g', c.session, 'COUNT', n, 'STREAMS', STREAM[letter], '>')
    local entries = found and found[1] and found[1][2] or {}
    for _, one in ipairs(entries) do take(c, letter, one[1], one[2][2]) end
    seen = seen + #entries
    if #entries < n then return #c.places - before, false end
  end
  return #c.places - before, true
end

-- reclaim claims an entry that a blocking read was given, unless others had it put
-- back since.
local function reclaim(c, place)
  local letter, eid = string.sub(place, 1, 1), string.sub(place, 2)
  if redis.call('XCLAIM', STREAM[letter], 'g', c.session, 0, eid, 'JUSTID')[1] then
    local text = text_at(STREAM[letter], eid)
    if text then take(c, letter, eid, text) end
  end
end

-- claim takes from what came back and from what is new in turns, so that neither
-- starves the other. With room for one, `odd` (1 or 0, by the clock) says whose turn it is.
local function claim(c, most, odd)
  local turn = most > 1 and math.ceil(most / 2) or odd
  local n, more = 0, redis.call('XLEN', READY) > 0
  if more and turn > 0 then n, more = read(c, 'r', turn) end
  local left = most - n
  if left > 0 then left = left - read(c, 'm', left) end
  if more and left > 0 then read(c, 'r', left) end
end
