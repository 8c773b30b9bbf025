-- What is left for the relay of facts when jobs end (store/facts).
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: bury, close, groups, int, leave_fact
-- GIVES: tell_of, leave_ended
local OVER = { 'd', 'e', 'f', 'cancelled', 'superseded', 'ended' } -- counts of a group's jobs that have ended
local ended = {}

-- tell_of says what is to be left: with l dead letters, with e groups whose jobs have all ended, and jobs with a report that are given
-- up for their age.
local function tell_of(what)
  local letters, ends = string.find(what, 'l', 1, true), string.find(what, 'e', 1, true)
  local plain_close, plain_bury = close, bury
  close = function(e, ...)
    plain_close(e, ...)
    if ends and e.g ~= '' then ended[e.g] = true end
  end
  bury = function(e, why, retention)
    local eid = plain_bury(e, why, retention)
    if letters then leave_fact('dead', eid, '', cjson.encode({ i = e.i, g = e.g, reason = why.reason, label = why.label, attempts = int(e.f), class = why.class or '' })) end
    if ends and e.report and why.reason == 'max_age' then leave_fact('', e.i, '', '') end
    return eid
  end
end

-- leave_ended must come behind all that the script counts and leaves.
local function leave_ended()
  for g in pairs(ended) do
    local left = groups[g].counts.c or 0
    for _, name in ipairs(OVER) do left = left - (groups[g].counts[name] or 0) end
    if left <= 0 then leave_fact('', g, '', '') end
  end
end
