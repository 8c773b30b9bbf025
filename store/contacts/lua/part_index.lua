-- The index of one user and its floor: no trimmed entry ranks above the floor.
-- KEYS: 1 recent (zset), 2 state (hash)
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local recent, state = KEYS[1], KEYS[2]

-- Lua's < on strings uses the server's locale, a sorted set compares bytes.
local function bytes_less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- below reports whether the pair (score, member) ranks below another.
local function below(score, member, score2, member2)
  local a, b = tonumber(score), tonumber(score2)
  if a ~= b then return a < b end
  return bytes_less(member, member2)
end

-- lift moves a floor up, never down. kind is 'f' (the floor) or 'b' (the highest entry that
-- was trimmed since the present build began).
local function lift(kind, score, member)
  local old = redis.call('HMGET', state, kind .. 's', kind .. 'm')
  if not old[1] or below(old[1], old[2], score, member) then
    redis.call('HSET', state, kind .. 's', score, kind .. 'm', member)
  end
end

-- unname takes the name of a contact out of the floors. BEYOND is above all contacts, so
-- that the floor only rises.
local BEYOND = '~'
local function unname(contact)
  for _, field in ipairs({ 'fm', 'bm' }) do
    if redis.call('HGET', state, field) == contact then redis.call('HSET', state, field, BEYOND) end
  end
end

-- trim keeps at most max of count members and records the highest that it removed. A member
-- that comes back with the same score must not seem unchanged, so the sequence rises.
local function trim(count, max)
  local excess = count - max
  if excess <= 0 then return end
  local highest = redis.call('ZRANGE', recent, excess - 1, excess - 1, 'WITHSCORES')
  lift('f', highest[2], highest[1])
  lift('b', highest[2], highest[1])
  redis.call('ZREMRANGEBYRANK', recent, 0, -(max + 1))
  redis.call('HINCRBY', state, 'q', 1)
end

-- raise raises a member's score, never lowers it, within the cap. It returns whether
-- anything changed. If not, readers that are about to lower the score must read again, so
-- the sequence of the state rises. left is the lifetime of the state in ms; nil if the
-- caller does not know it.
local function raise(member, score, max, margin, left)
  if redis.call('ZADD', recent, 'GT', 'CH', score, member) == 0 then
    redis.call('HINCRBY', state, 'q', 1)
    return false
  end
  local count = redis.call('ZCARD', recent)
  if count == 1 then
    redis.call('PEXPIRE', recent, (left or redis.call('PTTL', state)) + margin)
  end
  trim(count, max)
  return true
end
