-- The parts of time of which there are hashes with reports (part_report.lua): a set, from
-- which reports are listed. A part is the first 6 characters of the ids that NewID makes.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines names
-- TAKES: P, now_us, int
-- GIVES: note_part, trim_parts
local REPORTED, PARTS = P .. 'reported', 10000

-- note_part adds the part of a hash, under its number: how many 32nds of a second after the
-- begin of 2026 it is. The part has 30 bits of the number, which begin again after 388 days:
-- of all numbers with these bits it is the one nearest to now. job.go has the same rule.
local function note_part(key)
  local part = string.sub(key, -6)
  local bits, now = tonumber(part, 32), math.floor((now_us() - 1767225600000000) / 31250)
  if bits then redis.call('ZADD', REPORTED, int(now + (bits - now + 2 ^ 29) % 2 ^ 30 - 2 ^ 29), part) end
end

-- trim_parts forgets at most `most` of the oldest parts above the limit, and a few of the others
-- whose hash is gone. It reports whether there is more to forget.
local function trim_parts(most)
  local over = redis.call('ZCARD', REPORTED) - PARTS
  if over > 0 then redis.call('ZREMRANGEBYRANK', REPORTED, 0, math.min(over, most) - 1) end
  for _, part in ipairs(redis.call('ZRANDMEMBER', REPORTED, 16)) do
    if redis.call('EXISTS', P .. 'report:' .. part) == 0 then redis.call('ZREM', REPORTED, part) end
  end
  return over > most
end
