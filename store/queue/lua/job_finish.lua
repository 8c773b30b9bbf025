-- Records what became of claimed jobs. Run again with the same call number it
-- changes nothing and answers the same.
-- KEYS: 1 the shard's live records
-- ARGV: 1 owner, 2 call number, 3 retention of marks in ms, 4 retention of
--       groups in ms, 5 most attempts, 6 most age in ms or -1, then per job 15:
--       place, id, fence, outcome, key, unique, group, attachments, label,
--       counts and facts as JSON or '', delay in ms, 1 and the new payload or
--       '', name to park under, reason, error
-- RETURNS: {1, ms till the next delayed job or -1, a digit per job: 1 recorded,
--          0 lost, 2 dead, 3 cancelled}
-- @include lua/record.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
-- @include lua/part_bucket.lua
-- @include lua/part_group.lua
-- @include lua/part_end.lua
local owner, call, retention, group_ttl = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local most, age = tonumber(ARGV[5]), tonumber(ARGV[6])
local us = now_us()
local ms = math.floor(us / 1000)
local memo = P .. 'fin:' .. owner
local last = redis.call('GET', memo)
if last and string.match(last, '^%S+') == call then
  return { 1, next_due(ms), string.sub(last, #call + 2) }
end
local drop = { m = {}, r = {}, a = {} }

local function why(o, reason, label)
  return { reason = o.reason ~= '' and o.reason or reason, err = o.err, label = o.label ~= '' and o.label or label or 'failed', discard = o.outcome == 'discard' }
end

local function failed(o, e, r)
  r.failures = r.failures + 1
  if r.failures >= most then
    bury(e, r, why({ reason = '', err = o.err, label = o.label }, 'max_attempts'), retention)
    return 2
  end
  put_later(e, r, ms + o.delay)
  redis.call('HINCRBY', STATS, 'retries', 1)
  yield(e.k, e.i)
  return 1
end

local function deferred(o, e, r)
  if age >= 0 and ms - tonumber(e.s) > age then
    bury(e, r, why({ reason = '', err = o.err, label = o.label }, 'max_age'), retention)
    return 2
  end
  put_later(e, r, ms + o.delay)
  yield(e.k, e.i)
  return 1
end

local function given_up(o, e, r)
  r.failures = r.failures + 1
  bury(e, r, why(o, 'dead'), retention)
  return 2
end

-- outcomes of a job that goes on, or is given up: they need its whole entry.
local moves = {
  retry = failed,
  defer = deferred,
  dead = given_up,
  discard = given_up,
  continue = function(o, e, r)
    r.failures, r.lost = 0, 0
    put_stream(e, r, 'm')
    return 1
  end,
  park = function(o, e, r) park(e, r, o.park) yield(e.k, e.i) return 1 end,
  release = function(_, e, r) put_stream(e, r, front(r)) return 1 end,
}

local function finish(o)
  local r = record_of(o.i)
  if not r or (r.state ~= 'R' and r.state ~= 'Z') or r.fence ~= o.fence then return 0 end
  local letter, eid = string.sub(o.place, 1, 1), string.sub(o.place, 2)
  local e = o
  if o.outcome ~= 'done' or r.state == 'Z' then e = entry_at(STREAM[letter], eid) end
  if not e then return 0 end
  drop[letter][#drop[letter] + 1] = eid
  if o.extra ~= '' then
    local extra = cjson.decode(o.extra)
    for name, n in pairs(extra.c or {}) do count(e.g, name, n) end
    set_facts(e.g, extra.f or {}, true)
  end
  if r.state == 'Z' then
    close(e, 'C', 'cancelled', retention)
    return 3
  end
  if o.outcome == 'done' then
    close(e, 'D', o.label, retention)
    return 1
  end
  if o.payload ~= '' then e.p = string.sub(o.payload, 2) end
  return moves[o.outcome](o, e, r)
end

local ids, answers = {}, {}
for i = 8, #ARGV, 15 do ids[#ids + 1] = ARGV[i] end
load_records(ids)
for i = 7, #ARGV, 15 do
  answers[#answers + 1] = tostring(finish({ place = ARGV[i], i = ARGV[i + 1], fence = ARGV[i + 2], outcome = ARGV[i + 3],
    k = ARGV[i + 4], u = ARGV[i + 5], g = ARGV[i + 6], a = ARGV[i + 7], label = ARGV[i + 8], extra = ARGV[i + 9],
    delay = tonumber(ARGV[i + 10]), payload = ARGV[i + 11], park = ARGV[i + 12], reason = ARGV[i + 13], err = ARGV[i + 14] }))
end
save(group_ttl)
remove(drop)
local text = table.concat(answers)
redis.call('SET', memo, call .. ' ' .. text, 'PX', 120000)
return { 1, next_due(ms), text }
