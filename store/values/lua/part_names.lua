-- What is stored under the names of a group, and which names are in use. The script has NAMES, most and ms before it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local PREFIX = string.sub(NAMES, 1, -#'names' - 1)
local SWEEP, SWEEPS = 16, 8 -- names that are looked at when a new one comes: at once, and how often if there is no room
local texts, lives, order, gone = {}, {}, {}, {}

-- read gives the text of a key, false if there is none.
local function read(key)
  if texts[key] == nil then texts[key] = redis.call('GET', key) end
  return texts[key]
end

-- store notes the text of a key, false to delete it, and its lifetime in ms, '' for none.
local function store(key, text, life)
  if lives[key] == nil then order[#order + 1] = key end
  texts[key], lives[key] = text, life
end

-- write_all writes what was noted.
local function write_all()
  for _, key in ipairs(order) do
    if not texts[key] then
      redis.call('DEL', key)
    elseif lives[key] == '' then
      redis.call('SET', key, texts[key])
    else
      redis.call('SET', key, texts[key], 'PX', lives[key])
    end
  end
  for name in pairs(gone) do redis.call('ZREM', NAMES, name) end
end

-- sweep forgets names that are gone, and reports whether more of them may be. A slot that moves hides keys.
local function sweep()
  local due = redis.call('ZRANGEBYSCORE', NAMES, '-inf', ms, 'LIMIT', 0, SWEEP)
  for _, name in ipairs(due) do
    local left = redis.pcall('PTTL', PREFIX .. 'v:' .. name)
    if left == -2 then
      redis.call('ZREM', NAMES, name)
    elseif type(left) == 'number' then
      redis.call('ZADD', NAMES, left < 0 and '+inf' or int(ms + left + 1), name)
    end
  end
  return #due == SWEEP
end

-- use notes that a name is in use for some ms, '' for good, and reports whether there is room for it.
local function use(name, known, life)
  redis.call('ZADD', NAMES, life == '' and '+inf' or int(ms + life), name)
  gone[name] = nil
  if known then return true end
  for _ = 1, SWEEPS do
    local more = sweep()
    if redis.call('ZCARD', NAMES) <= most then return true end
    if not more then break end
  end
  redis.call('ZREM', NAMES, name)
  return false
end

local function forget(key, name)
  if read(key) then
    store(key, false, '')
    gone[name] = true
  end
end
