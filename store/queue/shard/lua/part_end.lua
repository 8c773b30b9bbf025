-- The end of a job: its tombstone, what it held, what is counted; dead letters.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, HEADS, UNIQUES, STATS, DEAD, DEADIDS, record_of, int, parse, put_stream, front,
--        mark_end, save_ends, count, count_reason, fail, save_groups, report_state, save_reports
-- GIVES: yield, close, bury, save

-- yield ends a job's hold on its key and starts the next in line.
local function yield(e)
  if e.k == '' or redis.call('HGET', HEADS, e.k) ~= e.i then return end
  local text = redis.call('ZPOPMIN', P .. 'wait:' .. e.k)[1]
  if not text then return redis.call('HDEL', HEADS, e.k) end
  redis.call('HINCRBY', STATS, 'blocked', -1)
  local next = parse(text)
  redis.call('HSET', HEADS, e.k, next.i)
  put_stream(next, front(next))
end

-- close leaves nothing of a job but its tombstone (D and a note: done, X: dead) and, when it
-- became a dead letter, its attachment.
local function close(e, letter, label, retention, keep)
  if e.r == '1' then
    redis.call('HDEL', record_of(e.i), e.i)
    mark_end(e, letter, retention)
  end
  if e.u ~= '' and redis.call('HGET', UNIQUES, e.u) == e.i then redis.call('HDEL', UNIQUES, e.u) end
  if e.a ~= '' and not keep then redis.call('DEL', P .. 'attach:' .. e.i) end
  count(e.g, label, 1)
  yield(e)
end

local function bury(e, why, retention)
  close(e, 'X', why.label, retention, true)
  count_reason(e.g, why.label, why.reason, 1)
  if e.report then report_state(e.i, why.reason == 'max_age' and 'E' or 'X') end
  local eid = redis.call('XADD', DEAD, '*', 'i', e.i, 't', e.t, 'k', e.k, 'u', e.u, 'g', e.g, 'w', e.w, 's', e.s, 'a', e.a, 'p', e.p,
    'reason', why.reason, 'err', why.err, 'label', why.label, 'attempts', int(e.f), 'fence', e.n, 'report', e.report and '1' or '', 'class', why.class or '')
  redis.call('HSET', DEADIDS, e.i, eid)
  if e.g ~= '' and why.label == 'failed' then fail(e, 'L' .. eid) end -- Failures of the queue has the same letter
  return eid
end

-- save writes what a script noted, and must come at its end.
local function save(group_ttl, report_ttl)
  save_groups(group_ttl)
  save_ends()
  save_reports(report_ttl)
end
