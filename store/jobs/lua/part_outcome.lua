-- What becomes of a job when its holder says something. The script has ms, base, longest and max_age before it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: int, parse, history_of, keep_history, push, later, yield, finish, bury, has, save_hold, free, lease_end, keep_record, ms, base, longest, max_age
-- GIVES: OUTCOMES
local OUTCOMES = {}

-- try_later lets a job wait, without its key, and counts a failure if there was one.
local function try_later(q, id, e, past, wait, counted)
  if counted then
    keep_history(q, id, past)
    q.retries = q.retries + 1
  end
  yield(q, id, e)
  later(q, id, ms + wait)
end

function OUTCOMES.renew(q, id, h, r)
  if has(h, 'c') then return '3' end
  local lease = r.lease ~= '' and r.lease or h.lease
  if tonumber(lease) < tonumber(h.lease) then q.delayed[id] = true end -- waiting workers are told
  if lease ~= h.lease or has(h, 'g') then
    h.lease, h.flags = lease, string.gsub(h.flags, 'g', '')
    save_hold(q, id, h)
  end
  redis.call('ZADD', q.k .. 'due', int(lease_end(lease)), id)
  keep_record(h, lease)
  return '1,' .. lease
end

function OUTCOMES.fail(q, id, h, r)
  local e, past = parse(redis.call('HGET', q.k .. 'jobs', id)), history_of(redis.call('HGET', q.k .. 'hist', id))
  free(q, id)
  past.failures, past.fence, past.err = past.failures + 1, h.fence, r.err
  if has(h, 'c') then
    finish(q, id, 'C', h.fence, e)
    return '3'
  end
  if past.failures >= e.most then
    bury(q, id, e, 'max_attempts', past, h.fence)
    return '1'
  end
  local backoff = r.jitter * math.min(longest, base * 2 ^ math.min(past.failures - 1, 30))
  try_later(q, id, e, past, math.ceil(math.max(backoff, r.after)), true)
  return '1'
end

function OUTCOMES.release(q, id, h, r)
  local e = parse(redis.call('HGET', q.k .. 'jobs', id))
  free(q, id)
  if has(h, 'c') then
    finish(q, id, 'C', h.fence, e)
    return '3'
  end
  if r.after == 0 then
    push(q, e.kind, { int(e.seq), id })
  elseif max_age >= 0 and ms - e.from > max_age then
    bury(q, id, e, 'max_age', history_of(redis.call('HGET', q.k .. 'hist', id)), h.fence)
  else
    try_later(q, id, e, nil, r.after, false)
  end
  return '1'
end
