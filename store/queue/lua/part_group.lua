-- What outlives a job, in buckets: the records of groups, and the tombstones of
-- named jobs.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
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
    local text
    local key, all = path('group:', g, g, function(at)
      text = redis.call('HGET', at, g)
      return text
    end)
    -- A script is not undone by an error: a broken record must not raise one.
    local ok, v = pcall(cjson.decode, text or '{}')
    c = { key = key, all = all, v = ok and type(v) == 'table' and v or {} }
    groups[g] = c
  end
  return c.v
end

local function count(g, name, n)
  if g == '' then return end
  local v = group_of(g)
  local old = v[name]
  v[name] = (type(old) == 'number' and old or 0) + n
end

local function save_groups(ttl)
  for g, c in pairs(groups) do
    redis.call('HSET', c.key, g, cjson.encode(c.v))
    -- An early end of a bucket would hide its successors.
    for _, key in ipairs(c.all) do touch(key, ttl) end
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

-- mark notes the end of a job: D done, X dead, C cancelled; save writes it.
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
