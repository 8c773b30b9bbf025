-- How a job goes on, or is given up, by the outcome that its worker gave.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions

local function why(o, reason, label)
  return { reason = o.reason ~= '' and o.reason or reason, err = o.err, label = o.label ~= '' and o.label or label or 'failed' }
end

local function failed(o, e, limits)
  e.f = e.f + 1
  if e.f >= limits.attempts then
    bury(e, why({ reason = '', err = o.err, label = o.label }, 'max_attempts'), limits.retention)
    return 2
  end
  put_later(e, limits.ms + o.delay, limits.ms)
  redis.call('HINCRBY', STATS, 'retries', 1)
  yield(e.k, e.i)
  return 1
end

local function deferred(o, e, limits)
  if limits.age >= 0 and limits.ms - tonumber(e.s) > limits.age then
    bury(e, why({ reason = '', err = o.err, label = o.label }, 'max_age'), limits.retention)
    return 2
  end
  put_later(e, limits.ms + o.delay, limits.ms)
  yield(e.k, e.i)
  return 1
end

local function given_up(o, e, limits)
  e.f = e.f + 1
  bury(e, why(o, 'dead'), limits.retention)
  return 2
end

-- outcomes of a job that goes on, or is given up: they need its whole entry.
local moves = {
  retry = failed,
  defer = deferred,
  dead = given_up,
  continue = function(_, e)
    e.f, e.l = 0, 0
    put_stream(e, 'm')
    return 1
  end,
  park = function(o, e) park(e, o.park) yield(e.k, e.i) return 1 end,
  release = function(_, e) put_stream(e, front(e)) return 1 end,
}
