-- Stores the jobs of some requests and claims the next ones of the shard.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: those of part_call.lua, then 1 retention of groups in ms, 2 of reports,
--       3 number of requests, then per request: name of its idempotency record or
--       ''; with a name also digest of the body, answer to store and its lifetime
--       in ms; number of jobs and the jobs (part_enqueue.lua)
-- RETURNS: as part_call.lua; the answer is '' when all was stored and plain, else
--          JSON: per request {1 stored, per job that is not plain its id and 1 new
--          or 0 not}, {2 replayed, the stored answer} or {3 other body}
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_text.lua
-- @include lua/part_stream.lua
-- @include lua/part_admit.lua
-- @include lua/part_later.lua
-- @include lua/part_due.lua
-- @include lua/part_write.lua
-- @include lua/part_tombstone.lua
-- @include lua/part_group.lua
-- @include lua/part_report.lua
-- @include lua/part_reported.lua
-- @include lua/part_call.lua
-- @include lua/part_enqueue.lua
local call = begin_call()
local alive = call.session ~= '' and redis.call('ZSCORE', OWNERS, call.session)
local repeated = known(call, alive)
if repeated then return repeated end
local first = call.args + 1
local group_ttl, report_ttl, requests = tonumber(ARGV[first]), tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])
local at, answers, plain = first + 3, {}, true

-- skip moves over n jobs that are not stored.
local function skip(from, n)
  for _ = 1, n do
    local kind = string.byte(ARGV[from], 1, 1)
    from = from + (kind == 80 and 1 or kind == 82 and 2 or 6 + tonumber(ARGV[from + 5]))
  end
  return from
end

for n = 1, requests do
  local name, out, record = ARGV[at], { 1 }, nil
  at = at + 1
  if name ~= '' then
    record = { key = P .. 'idem:' .. name, digest = ARGV[at], answer = ARGV[at + 1], ttl = ARGV[at + 2] }
    at = at + 3
    local old = redis.call('GET', record.key)
    if old then
      record.old = true
      out = string.sub(old, 1, #record.digest) == record.digest and { 2, string.sub(old, #record.digest + 1) } or { 3 }
    end
  end
  local jobs = tonumber(ARGV[at])
  at = at + 1
  if record and record.old then
    at = skip(at, jobs)
  else
    at = store(at, jobs, call.ms, call.claim.stored, out) -- part_enqueue.lua
    if record then redis.call('SET', record.key, record.digest .. record.answer, 'PX', record.ttl) end
  end
  plain = plain and #out == 1 and out[1] == 1
  answers[n] = out
end
save_groups(group_ttl)
save_reports(report_ttl + furthest.ms, note_part)
-- finish_call (part_call.lua) claims the next jobs.
return finish_call(call, alive, plain and '' or cjson.encode(answers))
