-- Storing jobs.
-- KEYS: none
-- ARGV: 1 and on: those of the including script
-- RETURNS: nothing; it only defines functions
-- TAKES: P, MAIN, READY, UNIQUES, record_of, int, WAKE, parse, add, admit, put_later, next_due,
--        buckets_of, count, report
-- GIVES: store, furthest

-- furthest is the longest time, in ms, for which a job of this call waits until its own time.
local furthest = { ms = 0 }

-- has_ended reports whether a job's end is on record.
local function has_ended(e)
  for _, key in ipairs(buckets_of(e)) do
    if redis.call('HEXISTS', key, e.i) == 1 then return true end
  end
  return false
end

-- known_as tells by which id a job, or another with its unique id, is known.
local function known_as(e)
  if e.r == '1' and (redis.call('HEXISTS', record_of(e.i), e.i) == 1 or has_ended(e)) then return e.i end
  return e.u ~= '' and redis.call('HGET', UNIQUES, e.u)
end

local function attach(e, from, n)
  for at = from, from + n - 1, 1000 do
    redis.call('RPUSH', P .. 'attach:' .. e.i, unpack(ARGV, at, math.min(at + 999, from + n - 1)))
  end
end

-- A delayed job that is due before all others wakes one worker, which then looks
-- when that is.
local function delay(e, due, ms)
  local before = next_due(ms)
  put_later(e, due, ms)
  if before < 0 or due < ms + before then add(READY, WAKE) end
end

-- store_full stores the job at ARGV[at]: its text (enqueued in ms: when the job may start
-- at the earliest, or ''), report or '', delay in ms, counts as
-- JSON or '', note or '', and the number of its attachments, which follow. It returns the id that
-- holds, 1 if this call made it, and where the next job begins. The ids under which the job
-- is known are written last, so that a script that fails before has lost nothing.
local function store_full(at, ms)
  local e, n = parse(ARGV[at]), tonumber(ARGV[at + 5])
  local after = at + 6 + n
  local id = known_as(e)
  if id then return id, 0, after end
  attach(e, at + 6, n)
  count(e.g, 'created', 1)
  if ARGV[at + 3] ~= '' then
    for name, more in pairs(cjson.decode(ARGV[at + 3])) do count(e.g, name, more) end
  end
  if ARGV[at + 1] ~= '' then report(e.i, ARGV[at + 1]) end
  local due = ms + tonumber(ARGV[at + 2])
  local own = tonumber(e.s) or 0
  if own > ms then
    furthest.ms, due = math.max(furthest.ms, own - ms), math.max(due, own)
  else
    e.s = ''
  end
  if due > ms then delay(e, due, ms) else admit(e, 'm', ms) end
  if e.r == '1' then redis.call('HSET', record_of(e.i), e.i, ARGV[at + 4] == '' and '1' or ARGV[at + 4] .. int(due)) end
  if e.u ~= '' then redis.call('HSET', UNIQUES, e.u, e.i) end
  return e.i, 1, after
end

-- store stores n jobs from ARGV[at] on: a plain one is its text (P), or its text and
-- its report (R). stored gets the arguments of plain ones by their places; out gets of
-- the others: id, and 1 new or 0 not. It returns where the next request begins.
local function store(at, n, ms, stored, out)
  for _ = 1, n do
    local text = ARGV[at]
    local kind = string.byte(text, 1, 1)
    if kind == 80 or kind == 82 then -- P, R
      stored['m' .. add(MAIN, text)] = at
      at = at + 1
      if kind == 82 then
        report(string.sub(text, 2, 33), ARGV[at])
        at = at + 1
      end
    else
      local n_out = #out
      out[n_out + 1], out[n_out + 2], at = store_full(at, ms)
    end
  end
  return at
end
