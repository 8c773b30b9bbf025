-- The end of a job: its tombstone, what it held, what is counted; dead letters.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local DEAD, DEADIDS = P .. 'dead', P .. 'deadids'

-- close leaves nothing of a job but its tombstone (D done, X dead) and, when it
-- became a dead letter, its attachment.
local function close(e, letter, label, retention, keep)
  if e.r == '1' then
    set_record(e.i, false)
    mark(e, letter, retention)
  end
  if e.u ~= '' and redis.call('HGET', UNIQUES, e.u) == e.i then redis.call('HDEL', UNIQUES, e.u) end
  if e.a ~= '' and not keep then redis.call('DEL', P .. 'attach:' .. e.i) end
  count(e.g, label, 1)
  yield(e.k, e.i)
end

-- count_reason counts those of a group that failed by their reason (events.FailedBy).
local function count_reason(e, label, reason, n)
  if label == 'failed' then count(e.g, 'failed!' .. string.gsub(string.sub(reason, 1, 40), '[^%w_]', '_'), n) end
end

local function bury(e, why, retention)
  close(e, 'X', why.label, retention, true)
  count_reason(e, why.label, why.reason, 1)
  if e.report then report_state(e.i, why.reason == 'max_age' and 'E' or 'X') end
  local eid = redis.call('XADD', DEAD, '*', 'i', e.i, 't', e.t, 'k', e.k, 'u', e.u, 'g', e.g, 'w', e.w, 's', e.s, 'a', e.a, 'p', e.p,
    'reason', why.reason, 'err', why.err, 'label', why.label, 'attempts', int(e.f), 'fence', e.n, 'report', e.report and '1' or '')
  redis.call('HSET', DEADIDS, e.i, eid)
end

local function forget_dead(eid, id)
  redis.call('XDEL', DEAD, eid)
  if redis.call('HGET', DEADIDS, id) == eid then redis.call('HDEL', DEADIDS, id) end
end

-- trim_dead drops old dead letters, and tells whether there may be more to drop.
local function trim_dead(ms, dead_ttl, dead_max, step)
  local over, gone = redis.call('XLEN', DEAD) - dead_max, 0
  for _, one in ipairs(redis.call('XRANGE', DEAD, '-', '+', 'COUNT', over > 0 and step or 2)) do
    local born = tonumber(string.match(one[1], '^%d+'))
    if gone >= over and ms - born < dead_ttl then break end
    forget_dead(one[1], one[2][2])
    if one[2][16] ~= '' then redis.call('DEL', P .. 'attach:' .. one[2][2]) end
    gone = gone + 1
  end
  if gone > 0 then redis.call('HINCRBY', STATS, 'dropped', gone) end
  return gone > 1
end

-- save writes what a script noted, and must come at its end.
local function save(group_ttl, report_ttl)
  save_records()
  save_groups(group_ttl)
  save_marks()
  save_reports(report_ttl)
end
