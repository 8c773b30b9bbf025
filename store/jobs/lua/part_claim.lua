-- The call that claims jobs. The script has CALLS, ms and texts_of before it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, queue_of, held_by, settle, take_ready, hold, texts_of, full
local BYTES = 1048576 -- payloads of one claim

-- still_held lists the jobs of an earlier answer, id and fence in turns, that are held as they were then.
local function still_held(q, text)
  local list = {}
  for id, fence in string.gmatch(text, '(%S+):(%d+)') do
    local h = held_by(redis.call('HGET', q.k .. 'held', id))
    if h and h.fence == fence then list[#list + 1] = id .. ':' .. fence end
  end
  return table.concat(list, ' ')
end

-- Jobs are claimed: queue, worker, most, lease in ms, name of the idempotency record or '', digest of the body, then
-- the types, none for all. Answers the ids and fences of the jobs.
function CALLS.claim(a)
  local q = queue_of(a[1])
  local record = a[5] ~= '' and P .. 'once:' .. a[5]
  local old = record and redis.call('GET', record)
  if old and string.sub(old, 1, #a[6]) ~= a[6] then return '7' end
  if old then return '8,' .. still_held(q, string.sub(old, #a[6] + 1)) end
  if not q.used then return '1,' end
  q.use = true
  settle(q)
  if q.paused == 1 then return '1,' end
  local ids, texts = take_ready(q, { unpack(a, 7) }, tonumber(a[3]), BYTES)
  if #ids == 0 then return '1,' end
  local given, list = hold(q, ids, texts, a[4], a[2], a[5]), {}
  for i = 1, #given, 2 do
    list[#list + 1] = given[i] .. ':' .. given[i + 1]
    texts_of[q.name .. '.' .. given[i]] = texts[#list]
  end
  local answer = table.concat(list, ' ')
  if record then redis.call('SET', record, a[6] .. answer, 'PX', a[4]) end
  return '1,' .. answer
end
