-- A job's report, while it lives and after its end: a text that the caller chose, whose
-- first letter is the state. Reports of the same 32nd of a second share a small hash,
-- under the rest of their ids, so that they are written together.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, set_fields, touch
-- GIVES: report, report_state, save_reports
local reports, latest = {}, {}

local function report(id, text)
  local key = P .. 'report:' .. string.sub(id, 1, 6)
  local list = reports[key] or {}
  reports[key] = list
  list[#list + 1], list[#list + 2] = string.sub(id, 7), text
  latest[id] = text
end

-- report_state changes the letter of a report that is there.
local function report_state(id, letter)
  local old = latest[id] or redis.call('HGET', P .. 'report:' .. string.sub(id, 1, 6), string.sub(id, 7))
  if old then report(id, letter .. string.sub(old, 2)) end
end

-- save_reports writes the reports, and calls `made` with each hash that was not there before.
local function save_reports(ttl, made)
  for key, list in pairs(reports) do
    set_fields(key, list, 1, #list)
    if touch(key, ttl) and made then made(key) end
  end
end
