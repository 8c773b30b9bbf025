-- The call that enqueues jobs. The script has CALLS, ms and full before it.
-- KEYS: none
-- ARGV: 1 and on: those of the run; those of a call begin at its place
-- RETURNS: nothing; it only defines functions
-- TAKES: P, MOST, int, queue_of, push, admit, later, settle, full
local AHEAD = 30 * 86400000 -- ms until a job is due

-- known_as gives the job that has a unique name.
local function known_as(q, unique)
  return unique ~= '' and redis.call('HGET', q.k .. 'unique', unique)
end

-- read_jobs reads the jobs of the call from ARGV[at] on. It returns them, the unique names of new ones, and what is to be answered
-- of those that are known, and whether one has a conflict key; or nil and the place of a job that is too far ahead.
local function read_jobs(q, at, last)
  local list, names, answer, keyed = {}, {}, '', false
  for i = at, last, 3 do
    local id, kind, body = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    if kind ~= '' then
      list[#list + 1] = { id, kind, body }
    else
      local due, head = string.match(body, '^(%d*)\31(.*)$')
      local key, unique
      kind, key, unique = string.match(head, '^([^\31]*)\31([^\31]*)\31([^\31]*)\31')
      local known = known_as(q, unique) or names[unique]
      if known then
        answer = answer .. ' ' .. int((i - at) / 3) .. '=' .. known
      else
        if due ~= '' and tonumber(due) > ms + AHEAD then return nil, int((i - at) / 3) end
        list[#list + 1] = { id, kind, due .. '\31' .. head, key = key, due = due, plain = key == '' and unique == '' }
        if unique ~= '' then names[unique] = id end
        keyed = keyed or key ~= ''
      end
    end
  end
  return list, names, answer, keyed
end

-- add_jobs stores new jobs, and lets those be claimed that wait for nothing.
local function add_jobs(q, list)
  local texts, ready, now = {}, {}, '\31' .. int(ms) .. '\31'
  for n, j in ipairs(list) do
    local id, kind, seq = j[1], j[2], q.seq + n
    local text = (not j.key or j.plain) and 'p' or 'x'
    texts[2 * n - 1], texts[2 * n] = id, text .. seq .. now .. j[3]
    if j.due and j.due ~= '' and tonumber(j.due) > ms then
      later(q, id, tonumber(j.due))
    elseif j.key and j.key ~= '' then
      admit(q, id, { kind = kind, key = j.key, seq = seq })
    else
      local of = ready[kind]
      if not of then
        of = {}
        ready[kind] = of
      end
      local at = #of
      of[at + 1], of[at + 2] = seq, id
    end
  end
  q.seq = q.seq + #list
  for from = 1, #texts, 1000 do redis.call('HSET', q.k .. 'jobs', unpack(texts, from, math.min(from + 999, #texts))) end
  for kind, of in pairs(ready) do push(q, kind, of) end
end

-- Jobs are enqueued, all or none: queue, '1' to make the queue if there is none, name of the idempotency record or '',
-- its lifetime in ms, digest of the body, then of each job three: id, type, and the rest of its text from the age on; or id,
-- '', and due time in ms or '', type and the rest of its text. Answers what the record says after the digest: the first id, and for each
-- job that is known by its unique name its place and the id of that job.
function CALLS.enqueue(at, n)
  local record, digest = ARGV[at + 2] ~= '' and P .. 'once:' .. ARGV[at + 2], ARGV[at + 4]
  local old = record and redis.call('GET', record)
  if old and string.sub(old, 1, #digest) ~= digest then return '7' end
  if old then return '8,' .. string.sub(old, #digest + 1) end
  if full then return '10' end
  local q = queue_of(ARGV[at])
  if not q.used and ARGV[at + 1] ~= '1' then return '9' end
  local list, names, answer, keyed = read_jobs(q, at + 5, at + n - 1)
  if not list then return '11,' .. names end
  if redis.call('HLEN', q.k .. 'jobs') + #list > MOST then return '3' end
  if keyed then settle(q) end -- a job of the key that is due comes first
  for name, id in pairs(names) do redis.call('HSET', q.k .. 'unique', name, id) end
  add_jobs(q, list)
  q.use = true
  answer = ARGV[at + 5] .. answer
  if record then redis.call('SET', record, digest .. answer, 'PX', ARGV[at + 3]) end
  return '1,' .. answer
end
