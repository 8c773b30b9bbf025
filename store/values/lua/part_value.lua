-- The calls of a value, "<version>:<JSON>". The script has CALLS and us before it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- read_value gives the version of a value, false if there is none, and its JSON.
local function read_value(key)
  local text = read(key)
  if not text then return false, '' end
  return string.match(text, '^(%d+):(.*)$')
end

-- A value is put: condition, lifetime in ms or '', JSON. Versions only rise, also after a value was deleted, because
-- none is below the clock in microseconds.
function CALLS.put(key, name, condition, life, json)
  local version, old = read_value(key)
  if not matches(condition, version) then return '2,' .. (version or 0) .. ',' .. old end
  if not use(name, version, life) then return '3' end
  us = us + 1
  local new = int(math.max(tonumber(version or 0) + 1, us))
  store(key, new .. ':' .. json, life)
  redis.pcall('PUBLISH', key .. ':changed', new)
  return '1,' .. new .. ',' .. (version and 0 or 1)
end

-- A value is deleted: condition.
function CALLS.delete(key, name, condition)
  local version, old = read_value(key)
  if not matches(condition, version) then return '2,' .. (version or 0) .. ',' .. old end
  forget(key, name)
  if version then redis.pcall('PUBLISH', key .. ':changed', '0') end
  return '1'
end
