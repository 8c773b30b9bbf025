-- Buckets: hashes that many ids share, because a small hash costs a fraction of a
-- key for each.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- A bucket takes about FULL ids; then each of its 16 successors, told apart by
-- a character of the id from the end, takes as many, and so on: so buckets are
-- few when there is little to do and small when there is much. Buckets of one
-- half minute begin with its characters, the first 4 of an id made by NewID; another
-- id has a bucket of its own. Ids are never taken out, so a full one stays full.
-- groupKeys in keys.go names the same buckets, for reading.
local FULL, LEVELS = 128, 3
local sizes = {}

local function full(key)
  sizes[key] = sizes[key] or redis.call('HLEN', key)
  return sizes[key] >= FULL
end

-- path calls visit with bucket after bucket in which the id may be, until it
-- says true or there are no more; it returns the last one, and all.
local function path(kind, base, id, visit)
  if #base ~= 32 then
    local key = P .. kind .. id
    visit(key)
    return key, { key }
  end
  local key, all = P .. kind .. string.sub(base, 1, 4), {}
  for level = 1, LEVELS do
    all[level] = key
    if visit(key) or level == LEVELS or not full(key) then break end
    key = key .. string.byte(id, -level) % 16 .. '.'
  end
  return key, all
end
