-- A session is one process' share of a shard from its start to its end: the consumer
-- in whose pending lists its jobs are, and the lease on all of them.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: OWNERS, int
-- GIVES: IDLE, renew
local IDLE = 3 -- leases until a session with nothing in flight is taken for dead

-- renew moves the end of a session's lease to so many ms from now, and reports whether the
-- session is still there. The first write of a script decides whether a full Redis refuses
-- it: whatever frees memory must begin with a command that none refuses.
local function renew(session, now, ms)
  if redis.call('ZREM', OWNERS, session) == 0 then return false end
  redis.call('ZADD', OWNERS, int(now + ms), session)
  return true
end
