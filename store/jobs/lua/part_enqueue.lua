-- The call that enqueues jobs. The script has CALLS, ms and full before it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, int, queue_of, parse, push, admit, later, full
local MOST, AHEAD = 1000000, 30 * 86400000 -- jobs of a queue that have not ended; ms until a job is due

-- known_as gives the job that has a unique name.
local function known_as(q, unique)
  return unique ~= '' and redis.call('HGET', q.k .. 'unique', unique)
end

-- add_jobs stores new jobs, and lets those be claimed that wait for nothing.
local function add_jobs(q, list)
  local texts, ready = {}, {}
  for _, j in ipairs(list) do
    q.seq = q.seq + 1
    local text = int(q.seq) .. '\31' .. int(ms) .. '\31' .. j.due .. '\31' .. j.head .. '\0' .. j.payload
    texts[#texts + 1], texts[#texts + 2] = j.id, text
    if j.due ~= '' and tonumber(j.due) > ms then
      later(q, j.id, tonumber(j.due))
    elseif j.key ~= '' then
      admit(q, j.id, { kind = j.kind, key = j.key, seq = q.seq })
    else
      ready[j.kind] = ready[j.kind] or {}
      local of = ready[j.kind]
      of[#of + 1], of[#of + 2] = int(q.seq), j.id
    end
  end
  for from = 1, #texts, 1000 do redis.call('HSET', q.k .. 'jobs', unpack(texts, from, math.min(from + 999, #texts))) end
  for kind, of in pairs(ready) do push(q, kind, of) end
end

-- Jobs are enqueued, all or none: queue, '1' to make the queue if there is none, name of the idempotency record or '',
-- its lifetime in ms, digest of the body, then of each job four: id, due time in ms or '', type, key, unique name and most attempts
-- as in its text, and its payload. Answers what the record says after the digest: the first id, and for each job that is known by its
-- unique name its place and the id of that job.
function CALLS.enqueue(a)
  local record = a[3] ~= '' and P .. 'once:' .. a[3]
  local old = record and redis.call('GET', record)
  if old and string.sub(old, 1, #a[5]) ~= a[5] then return '7' end
  if old then return '8,' .. string.sub(old, #a[5] + 1) end
  if full then return '10' end
  local q = queue_of(a[1])
  if not q.used and a[2] ~= '1' then return '9' end
  local list, answer, names = {}, a[6], {}
  for i = 6, #a, 4 do
    local kind, key, unique = string.match(a[i + 2], '^([^\31]*)\31([^\31]*)\31([^\31]*)\31')
    local known = known_as(q, unique) or names[unique]
    if known then
      answer = answer .. ' ' .. int((i - 6) / 4) .. '=' .. known
    else
      if a[i + 1] ~= '' and tonumber(a[i + 1]) > ms + AHEAD then return '11,' .. int((i - 6) / 4) end
      list[#list + 1] = { id = a[i], due = a[i + 1], head = a[i + 2], payload = a[i + 3], kind = kind, key = key, unique = unique }
      if unique ~= '' then names[unique] = a[i] end
    end
  end
  if redis.call('HLEN', q.k .. 'jobs') + #list > MOST then return '3' end
  for name, id in pairs(names) do redis.call('HSET', q.k .. 'unique', name, id) end
  add_jobs(q, list)
  q.use = true
  if record then redis.call('SET', record, a[5] .. answer, 'PX', a[4]) end
  return '1,' .. answer
end
