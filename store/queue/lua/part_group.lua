-- What outlives a job, in buckets: the records of groups, and the tombstones of
-- named jobs.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- A group's record is its counts, each "name=number", a blank between them; the queue
-- "notifications" has millions, so its names have letters. group.go has the same.
local SHORT = { created = 'c', delivered = 'd', expired = 'e', failed = 'f', retrying = 'r', unknown_outcome = 'u' }
local groups, fresh = {}, {}

-- touch makes a key live at least ttl ms more, once per script.
local function touch(key, ttl)
  if fresh[key] then return end
  fresh[key] = true
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, int(ttl)) end
end

-- lasts is touch for keys that are always given the same time.
local function lasts(key, ttl)
  if fresh[key] then return end
  fresh[key] = true
  redis.call('PEXPIRE', key, ttl)
end

local function group_of(g)
  local c = groups[g]
  if not c then
    c = { key = P .. 'group:' .. string.sub(g, 1, 6), field = string.sub(g, 7), v = {} }
    local text = redis.call('HGET', c.key, c.field)
    for name, n in string.gmatch(text or '', '([^ =]+)=(%-?%d+)') do c.v[name] = tonumber(n) end
    groups[g] = c
  end
  return c.v
end

local function count(g, name, n)
  if g == '' then return end
  local v = group_of(g)
  name = SHORT[name] or name
  v[name] = (v[name] or 0) + n
end

local function save_groups(ttl)
  for g, c in pairs(groups) do
    local text = {}
    for name, n in pairs(c.v) do text[#text + 1] = name .. '=' .. int(n) end
    redis.call('HSET', c.key, c.field, table.concat(text, ' '))
    touch(c.key, ttl)
  end
end

-- marked tells whether a job's end is on record.
local function marked(e)
  local found = false
  path('done:', #e.g == 32 and e.g or e.i, e.i, function(key)
    found = redis.call('HEXISTS', key, e.i) == 1
    return found
  end)
  return found
end

local function never() return false end

-- mark notes the end of a job: D done, X dead; save writes it.
local marks = {}

local function mark(e, letter, ttl)
  local key, all = path('done:', #e.g == 32 and e.g or e.i, e.i, never)
  local m = marks[key] or { all = all, ttl = ttl }
  marks[key] = m
  m[#m + 1], m[#m + 2] = e.i, letter
end

local function save_marks()
  for key, m in pairs(marks) do
    each_part('HSET', key, m)
    for _, one in ipairs(m.all) do lasts(one, m.ttl) end
  end
end
