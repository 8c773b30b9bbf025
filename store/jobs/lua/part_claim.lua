-- The call that claims jobs. The script has CALLS and ms before it.
-- KEYS: none
-- ARGV: 1 and on: those of the run; those of a call begin at its place
-- RETURNS: nothing; it only defines functions
-- TAKES: CALLS, P, int, queue_of, held_by, settle, take_ready, hold, ms
-- GIVES: list_held
local budget = 1048576 -- payloads of all claims of the run

-- list_held answers with the jobs of an earlier answer that are held as they were then, and what is left of their leases.
local function list_held(q, text, out)
  local fence = string.match(text, '^%d*')
  out[3] = fence
  for id in string.gmatch(string.sub(text, #fence + 1), '%S+') do
    local h = held_by(redis.call('HGET', q.k .. 'held', id))
    local left = h and h.fence == fence and redis.call('ZSCORE', q.k .. 'due', id) - ms - 1 or 0
    if left > 0 then
      local n, job = #out, redis.call('HGET', q.k .. 'jobs', id)
      budget = budget - #job
      out[n + 1], out[n + 2], out[n + 3], out[n + 4] = id, redis.call('HGET', q.k .. 'hist', id) or '', job, int(left)
    end
  end
end

-- Jobs are claimed: queue, worker, most, lease in ms, name of the idempotency record or '', digest of the body, then
-- the types, none for all. Answers the fence and the ids of the jobs, and puts the jobs into out.
function CALLS.claim(at, n, out)
  local q, lease, name, digest = queue_of(ARGV[at]), ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  if budget <= 0 then return '13' end
  local record = name ~= '' and P .. 'once:' .. name
  local old = record and redis.call('GET', record)
  if old and string.sub(old, 1, #digest) ~= digest then return '7' end
  if old then
    list_held(q, string.sub(old, #digest + 1), out)
    return '8,' .. string.sub(old, #digest + 1)
  end
  if not q.used then return '1,' end
  q.use = true
  settle(q)
  if q.paused == 1 then return '1,' end
  local ids, texts = take_ready(q, { unpack(ARGV, at + 6, at + n - 1) }, tonumber(ARGV[at + 2]), budget)
  if #ids == 0 then return '1,' end
  for _, text in ipairs(texts) do budget = budget - #text end
  local fence, histories = hold(q, ids, texts, lease, ARGV[at + 1], name)
  out[3] = fence
  for i, id in ipairs(ids) do
    local k = 4 * i
    out[k], out[k + 1], out[k + 2], out[k + 3] = id, histories[i] or '', texts[i], lease
  end
  local answer = fence .. ' ' .. table.concat(ids, ' ')
  if record then redis.call('SET', record, digest .. answer, 'PX', lease) end
  return '1,' .. answer
end
