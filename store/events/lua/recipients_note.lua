-- Notes who gets a notification of an event whose opened notifications are counted. Noting a user again changes nothing.
-- The first users are noted in the hash of the event's counts, those after them in a few hashes, and all others in many: so an
-- audience of any size takes few bytes for each. A user who is noted again may be in a later hash too; the first one counts.
-- KEYS: 1 the counts (hash), which begins the names of the other hashes, 2 the report's hash, 3 a key that never exists
-- ARGV: 1 least lifetime in ms, 2 number of the few hashes, then of each user two: the bucket and the digest
-- RETURNS: 1
local ROOM = 400 -- users in one of the first hashes; with more than 512 fields Redis takes six times as much for each
local counts, life, few = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local rooms = {} -- of the hashes that were looked at

local function has_room(key)
  rooms[key] = rooms[key] or ROOM - redis.call('HLEN', key)
  return rooms[key] > 0
end

-- note notes a user in a hash, unless one of the later hashes has the user. They do if users of the hash were erased. It gives the
-- hash that has the user.
local function note(user, key, later, last)
  for _, other in ipairs({ later, last }) do
    if redis.call('HEXISTS', other, user) == 1 then return other end
  end
  rooms[key] = rooms[key] - redis.call('HSETNX', key, user, 0)
  return key
end

redis.call('DEL', KEYS[3]) -- a script whose first write frees memory is not refused by a full Redis
redis.call('HSETNX', counts, 'opened', 0)
local written = { [counts] = true }
for i = 3, #ARGV, 2 do
  local user, near, far = ARGV[i + 1], counts .. ':' .. ARGV[i] % few, counts .. ':' .. ARGV[i]
  if has_room(counts) then
    written[note(user, counts, near, far)] = true
  else
    -- Its lifetime is extended also if it is full. Users who were noted in it are then noted again in far, but it counts for them.
    written[near] = true
    if has_room(near) then far = note(user, near, far) else redis.call('HSETNX', far, user, 0) end
    written[far] = true
  end
end

-- The hash with the event's report may live longer, because of other events in it.
life = math.max(life, redis.call('PTTL', KEYS[2]))
for key in pairs(written) do redis.call('PEXPIRE', key, string.format('%d', life)) end
return 1
