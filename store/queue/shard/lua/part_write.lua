-- Writes to hashes that many ids share, each of which has a lifetime.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: int
-- GIVES: set_fields, touch
local fresh = {} -- by key, the lifetime in ms that it had before this script extended it

-- set_fields writes fields to a hash: the names and values, in turns, between two places of a list.
local function set_fields(key, list, first, last)
  for from = first, last, 500 do redis.call('HSET', key, unpack(list, from, math.min(from + 499, last))) end
end

-- touch makes a key live at least ttl ms more, once per script. A key that is `always`
-- given the same time is not asked how long it lives. It reports whether a key had no
-- lifetime, because this script made it.
local function touch(key, ttl, always)
  if fresh[key] then return end
  fresh[key] = always and 0 or redis.call('PTTL', key)
  if fresh[key] < ttl then redis.call('PEXPIRE', key, int(ttl)) end
  return fresh[key] == -1
end
