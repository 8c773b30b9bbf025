-- The end of a job: its mark, what it held, what is counted; dead letters.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local DEAD, DEADIDS = P .. 'dead', P .. 'deadids'

-- close leaves nothing of a job but its mark (D done, X dead, C cancelled),
-- and, when it became a dead letter, its attachment.
local function close(e, letter, label, retention, keep)
  set_record(e.i, nil)
  mark(e, letter, retention)
  if e.u ~= '' and redis.call('HGET', UNIQUES, e.u) == e.i then redis.call('HDEL', UNIQUES, e.u) end
  if e.a ~= '' and not keep then redis.call('DEL', P .. 'attach:' .. e.i) end
  count(e.g, label, 1)
  yield(e.k, e.i)
end

local function bury(e, r, why, retention)
  close(e, 'X', why.label, retention, not why.discard)
  if why.discard then return end
  local eid = redis.call('XADD', DEAD, '*', 'i', e.i, 't', e.t, 'k', e.k, 'u', e.u, 'g', e.g, 'w', e.w, 's', e.s, 'a', e.a, 'p', e.p,
    'reason', why.reason, 'err', why.err, 'label', why.label, 'attempts', r.failures, 'fence', r.fence)
  redis.call('HSET', DEADIDS, e.i, eid)
end

local function forget_dead(eid, e)
  redis.call('XDEL', DEAD, eid)
  if redis.call('HGET', DEADIDS, e.i) == eid then redis.call('HDEL', DEADIDS, e.i) end
end
