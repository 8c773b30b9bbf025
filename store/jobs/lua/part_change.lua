-- The calls that cancel a job and pause a queue. The script has CALLS before it.
-- KEYS: none
-- ARGV: 1 and on: those of the run; those of a call begin at its place
-- RETURNS: nothing; it only defines functions
-- TAKES: CALLS, P, queue_of, parse, pull, finish, ended_as, held_by, has, save_hold, settle
-- A job is cancelled: queue, id. One that is held is marked. The last holder of one whose lease is over is told, too.
function CALLS.cancel(at)
  local q, id = queue_of(ARGV[at]), ARGV[at + 1]
  settle(q)
  local text = redis.call('HGET', q.k .. 'jobs', id)
  if not text then
    local letter = ended_as(q, id) or redis.call('HEXISTS', P .. 'deadids', q.name .. '.' .. id) == 1 and 'X'
    return letter == 'C' and '1' or letter and '4' or '9'
  end
  local h, e = held_by(redis.call('HGET', q.k .. 'held', id)), parse(text)
  if h then
    if not has(h, 'c') then
      h.flags = h.flags .. 'c'
      save_hold(q, id, h)
    end
    return '1'
  end
  if redis.call('ZREM', q.k .. 'due', id) == 0 and not pull(q, e.kind, id) and redis.call('ZREM', q.k .. 'wait/' .. e.key, id) == 1 then
    q.blocked = q.blocked - 1
  end
  local last = held_by(redis.call('HGET', q.k .. 'lost', id))
  finish(q, id, 'C', last and last.fence or '0', e)
  return '1'
end

-- A queue is paused or resumed: queue, 1 or 0, '1' to make the queue if there is none.
function CALLS.pause(at)
  local q, what = queue_of(ARGV[at]), ARGV[at + 1]
  if not q.used and (what == '0' or ARGV[at + 2] ~= '1') then return '9' end
  q.paused, q.use, q.news = tonumber(what), true, q.news or what == '0'
  return '1'
end
