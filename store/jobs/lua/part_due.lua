-- What is due: jobs that waited for their time, and holds whose lease is over.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: int, parse, pull, admit, held_by, has, save_hold, lose, ms, back
-- GIVES: settle
local left_due = 300 -- jobs that this run sees to, of all queues

-- overtake lets a job of a key be its head instead of a later one that nobody has claimed yet.
local function overtake(q, e)
  local head = e.key ~= '' and redis.call('HGET', q.k .. 'heads', e.key)
  if not head or redis.call('HEXISTS', q.k .. 'lost', head) == 1 then return end
  local other = parse(redis.call('HGET', q.k .. 'jobs', head))
  if e.seq < other.seq and pull(q, other.kind, head) then
    redis.call('ZADD', q.k .. 'wait/' .. e.key, int(other.seq), head)
    redis.call('HDEL', q.k .. 'heads', e.key)
    q.blocked = q.blocked + 1
  end
end

-- admit_due lets jobs be claimed that waited for their time, in the order of the queue.
local function admit_due(q, ids)
  local list = {}
  for i, id in ipairs(ids) do
    redis.call('ZREM', q.k .. 'due', id)
    list[i] = { id, parse(redis.call('HGET', q.k .. 'jobs', id)) }
  end
  table.sort(list, function(a, b) return a[2].seq < b[2].seq end)
  for _, one in ipairs(list) do
    overtake(q, one[2])
    admit(q, one[1], one[2])
  end
end

-- settle sees to jobs that are due: those that waited for their time, and those whose lease is over. A lease that was
-- over before Redis was back from an absence (back, in ms, '' for none) lasts once more, because its worker could not say anything.
local function settle(q)
  if q.settled then return end
  q.settled = true
  local due = redis.call('ZRANGEBYSCORE', q.k .. 'due', '-inf', int(ms), 'WITHSCORES', 'LIMIT', 0, math.max(1, left_due))
  local waited = {}
  left_due = left_due - #due / 2
  for i = 1, #due, 2 do
    local id, at = due[i], tonumber(due[i + 1])
    local text = redis.call('HGET', q.k .. 'held', id)
    local h = held_by(text)
    local more = h and back and at <= back and not has(h, 'g') and back + h.lease
    if not h then
      waited[#waited + 1] = id
    elseif more and more > ms then
      redis.call('ZADD', q.k .. 'due', int(more), id)
      h.flags = h.flags .. 'g'
      save_hold(q, id, h)
    else
      lose(q, id, text)
    end
  end
  admit_due(q, waited)
end
