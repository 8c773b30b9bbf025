-- What is told of a job while it lives and after its end: a text that the caller
-- chose, whose first letter is the state. Reports of one second share a hash.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local reports, latest = {}, {}

local function report(id, text)
  local key = P .. 'report:' .. string.sub(id, 1, 6)
  local list = reports[key] or {}
  reports[key] = list
  list[#list + 1], list[#list + 2] = id, text
  latest[id] = text
end

-- report_state changes the letter of a report that is there.
local function report_state(id, letter)
  local old = latest[id] or redis.call('HGET', P .. 'report:' .. string.sub(id, 1, 6), id)
  if old then report(id, letter .. string.sub(old, 2)) end
end

local function save_reports(ttl)
  for key, list in pairs(reports) do
    each_part('HSET', key, list)
    touch(key, ttl)
  end
end
