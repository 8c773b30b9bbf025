-- Storing one job.
-- KEYS: none
-- ARGV: 1 and on: those of the including script
-- RETURNS: nothing; it only defines functions
-- Fields of a job in ARGV: id, type, key, unique, group, guard, delay in ms,
-- payload, facts as JSON or '', number of attachments, the attachments.
local JOB_ARGS = 10

local function known(e, rid)
  local r = record_of(e.i)
  if r then
    return e.i, r.state == 'Q' and string.sub(r.owner, -#rid) == rid
  end
  if marked(e) then return e.i, false end
  if e.u ~= '' then
    local other = redis.call('HGET', UNIQUES, e.u)
    if other then return other, false end
  end
end

local function attach(e, from, n)
  for at = from, from + n - 1, 1000 do
    redis.call('RPUSH', P .. 'attach:' .. e.i, unpack(ARGV, at, math.min(at + 999, from + n - 1)))
  end
end

-- A delayed job that is due before all others wakes one worker, which then
-- knows when to look: an entry without an id.
local function delay(e, r, due, ms)
  local before = next_due(ms)
  put_later(e, r, due)
  if before < 0 or due < ms + before then
    add(READY, { i = '', t = '', k = '', u = '', g = '', w = '', s = '', a = '', p = '' })
  end
end

-- load reads the records of the jobs from ARGV[at] on at once.
local function load(at, jobs)
  local ids = {}
  for n = 1, jobs do
    ids[n] = ARGV[at]
    at = at + JOB_ARGS + tonumber(ARGV[at + 9])
  end
  load_records(ids)
end

-- enqueue stores the job at ARGV[at]. It returns the id that holds, whether
-- this call made it, and where the next job's arguments begin. rid, the
-- request's id, ends the place of a job until it is claimed: a repeat of the
-- same request is no duplicate.
local function enqueue(at, rid, ms)
  local n = tonumber(ARGV[at + 9])
  local after = at + JOB_ARGS + n
  local e = { i = ARGV[at], t = ARGV[at + 1], k = ARGV[at + 2], u = ARGV[at + 3], g = ARGV[at + 4], w = ARGV[at + 5],
    s = int(ms), a = n > 0 and tostring(n) or '', p = ARGV[at + 7] }
  local id, mine = known(e, rid)
  if id then return id, mine, after end
  if e.u ~= '' then redis.call('HSET', UNIQUES, e.u, e.i) end
  attach(e, at + JOB_ARGS, n)
  count(e.g, 'created', 1)
  if ARGV[at + 8] ~= '' then set_facts(e.g, cjson.decode(ARGV[at + 8]), false) end
  local r, wait = { failures = '0', lost = '0', fence = '0', tag = '.' .. rid }, tonumber(ARGV[at + 6])
  if wait > 0 then delay(e, r, ms + wait, ms) else admit(e, r, 'm') end
  return e.i, true, after
end

-- enqueue_all stores the jobs from ARGV[at] on. It returns what the call
-- answers, in which the second value, the entries waiting, is still to be set.
local function enqueue_all(at, rid, jobs, ms)
  local out = { 1, 0 }
  load(at, jobs)
  for _ = 1, jobs do
    local id, new
    id, new, at = enqueue(at, rid, ms)
    out[#out + 1] = id
    out[#out + 1] = new and 1 or 0
  end
  return out
end
