-- How a job goes on, or is given up, by the outcome that its worker gave.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, STATS, record_of, int, text_of, add, put_stream, front, count_parked, put_later, yield, bury
-- GIVES: move

-- park moves a job to a stream that nobody reads until it is moved back. It returns the
-- bytes that parked jobs take now.
local function park(e, name)
  local text = text_of(e)
  add(P .. 'parked:' .. name, text)
  redis.call('HINCRBY', P .. 'parkedn', name, 1)
  return count_parked(text, 1)
end

-- move does with the job e what its result o says. It returns 1 the job goes on, 2 it is
-- dead, and the bytes that parked jobs take now if it was parked.
local function move(o, e, limits)
  if o.outcome == 'retry' or o.outcome == 'dead' then e.f = e.f + 1 end
  local reason = o.outcome == 'dead' and (o.reason ~= '' and o.reason or 'dead')
  if o.outcome == 'retry' and e.f >= limits.attempts then
    reason = 'max_attempts'
  elseif o.outcome == 'defer' and limits.age >= 0 and limits.ms - tonumber(e.s) > limits.age then
    reason = 'max_age'
  end
  if reason then
    bury(e, { reason = reason, err = o.err, class = o.class, label = o.label ~= '' and o.label or 'failed' }, limits.retention)
    return 2
  end
  local parked
  if o.outcome == 'continue' then
    e.f, e.l = 0, 0
    put_stream(e, 'm')
  elseif o.outcome == 'release' then
    put_stream(e, front(e))
  else
    if o.outcome == 'park' then parked = park(e, o.park) else put_later(e, limits.ms + o.delay, limits.ms) end
    if o.outcome ~= 'park' and o.park ~= '' and e.r == '1' then redis.call('HSET', record_of(e.i), e.i, o.park .. int(limits.ms + o.delay)) end
    if o.outcome == 'retry' then redis.call('HINCRBY', STATS, 'retries', 1) end
    yield(e)
  end
  return 1, parked
end
