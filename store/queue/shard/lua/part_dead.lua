-- Dead letters that go.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, STATS, DEAD, DEADIDS
-- GIVES: CLASS, queue_of, dead_of, forget_dead, trim_dead
local LABEL, CLASS = 24, 32 -- of an entry's values

-- queue_of names the callers' queue (store/jobs) of a letter's job; nil: the job is one of fanfare's own.
local function queue_of(v)
  return v[LABEL] == 'job' and string.match(v[CLASS] or '', '\31(.*)$') or nil
end

-- dead_of finds a letter by its job and its own id; '': the job's last. It gives the letter's id, its
-- values, and whether it is the job's last. A job that was enqueued again and died again has several.
local function dead_of(job, eid)
  local last = redis.call('HGET', DEADIDS, job)
  if eid == '' then eid = last end
  local letter = eid and redis.call('XRANGE', DEAD, eid, eid, 'COUNT', 1)[1]
  if letter then return eid, letter[2], eid == last end
  if eid and eid == last then redis.call('HDEL', DEADIDS, job) end
end

-- forget_dead removes a letter, of which v are the values.
local function forget_dead(eid, v)
  redis.call('XDEL', DEAD, eid)
  if redis.call('HGET', DEADIDS, v[2]) == eid then redis.call('HDEL', DEADIDS, v[2]) end
  local queue = queue_of(v)
  if queue then redis.call('ZREM', P .. 'deadof:' .. queue, eid) end
end

-- trim_dead drops old dead letters, and reports whether there may be more to drop.
local function trim_dead(ms, dead_ttl, dead_max, step)
  local over, gone = redis.call('XLEN', DEAD) - dead_max, 0
  for _, one in ipairs(redis.call('XRANGE', DEAD, '-', '+', 'COUNT', over > 0 and step or 2)) do
    local born = tonumber(string.match(one[1], '^%d+'))
    if gone >= over and ms - born < dead_ttl then break end
    forget_dead(one[1], one[2])
    if one[2][16] ~= '' then redis.call('DEL', P .. 'attach:' .. one[2][2]) end
    gone = gone + 1
  end
  if gone > 0 then redis.call('HINCRBY', STATS, 'dropped', gone) end
  return gone > 1
end
