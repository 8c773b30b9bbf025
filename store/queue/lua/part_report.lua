-- What is told of a job while it lives and after its end: a text that the caller
-- chose, whose first letter is the state. Reports of one part of a second share a
-- small hash, under the rest of their ids: what arrives together is written together.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local reports, latest = {}, {}

local function reports_of(id)
  return P .. 'report:' .. string.sub(id, 1, 6)
end

local function report(id, text)
  local key = reports_of(id)
  local list = reports[key] or {}
  reports[key] = list
  list[#list + 1], list[#list + 2] = string.sub(id, 7), text
  latest[id] = text
end

-- report_state changes the letter of a report that is there.
local function report_state(id, letter)
  local old = latest[id] or redis.call('HGET', reports_of(id), string.sub(id, 7))
  if old then report(id, letter .. string.sub(old, 2)) end
end

local function save_reports(ttl)
  for key, list in pairs(reports) do
    each_part('HSET', key, list)
    touch(key, ttl)
  end
end
