-- Jobs that may be claimed: a sorted set for each type, in the order of the queue, and one of the types by their first job.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: int
-- GIVES: push, pull, save_types, take_ready
local STEP = 25 -- jobs that are read at once: their payloads may be large

-- first_of gives the number of the first job of a type, false if there is none.
local function first_of(q, kind)
  if q.first[kind] == nil then q.first[kind] = tonumber(redis.call('ZSCORE', q.k .. 'types', kind)) or false end
  return q.first[kind]
end

local function set_first(q, kind, seq)
  q.first[kind], q.dirty[kind] = seq or false, true
end

-- push lets jobs of a type be claimed: their numbers and ids in turns.
local function push(q, kind, list)
  local first = first_of(q, kind)
  for from = 1, #list, 1000 do
    redis.call('ZADD', q.k .. 'r/' .. kind, unpack(list, from, math.min(from + 999, #list)))
  end
  for i = 1, #list, 2 do
    if not first or tonumber(list[i]) < first then first = tonumber(list[i]) end
  end
  if first ~= q.first[kind] then set_first(q, kind, first) end
  q.news = true
end

-- look_at_first reads the first job of a type again.
local function look_at_first(q, kind)
  local seq = tonumber(redis.call('ZRANGE', q.k .. 'r/' .. kind, 0, 0, 'WITHSCORES')[2])
  set_first(q, kind, seq)
  return seq
end

-- pull takes a job back, and reports whether it could be claimed.
local function pull(q, kind, id)
  if redis.call('ZREM', q.k .. 'r/' .. kind, id) == 0 then return false end
  look_at_first(q, kind)
  return true
end

local function save_types(q)
  for kind in pairs(q.dirty) do
    if q.first[kind] then
      redis.call('ZADD', q.k .. 'types', int(q.first[kind]), kind)
    else
      redis.call('ZREM', q.k .. 'types', kind)
    end
  end
  q.dirty = {}
end

-- candidates are types with jobs, by their first ones; no kinds: all types. The first `most` jobs of a queue are of its
-- first `most` types at the most.
local function candidates(q, kinds, most)
  local list = {}
  if #kinds == 0 then
    save_types(q)
    local all = redis.call('ZRANGE', q.k .. 'types', 0, most - 1, 'WITHSCORES')
    for i = 1, #all, 2 do list[#list + 1] = { kind = all[i], first = tonumber(all[i + 1]) } end
  end
  for _, kind in ipairs(kinds) do
    if first_of(q, kind) then list[#list + 1] = { kind = kind, first = q.first[kind] } end
  end
  table.sort(list, function(a, b) return a.first < b.first end)
  return list
end

-- take_ready takes at most `most` jobs in the order of the queue, and at most `bytes` but one in any case. It returns
-- their ids and texts.
local function take_ready(q, kinds, most, bytes)
  local ids, texts, list = {}, {}, candidates(q, kinds, most)
  for _ = 1, most do
    local c = table.remove(list, 1)
    if not c or #ids == most or bytes <= 0 then break end
    local found = redis.call('ZRANGEBYSCORE', q.k .. 'r/' .. c.kind, '-inf', list[1] and int(list[1].first) or '+inf', 'LIMIT', 0,
      math.min(most - #ids, STEP))
    local taken = {}
    if not found[1] then break end
    local read = redis.call('HMGET', q.k .. 'jobs', unpack(found))
    for i, id in ipairs(found) do
      local text = read[i]
      if bytes > 0 and (#text <= bytes or #ids == 0) then
        taken[i], ids[#ids + 1], texts[#texts + 1] = id, id, text
        bytes = bytes - #text
      else
        bytes = 0
      end
    end
    if taken[1] then redis.call('ZREM', q.k .. 'r/' .. c.kind, unpack(taken)) end
    c.first = look_at_first(q, c.kind)
    if c.first then
      list[#list + 1] = c
      table.sort(list, function(a, b) return a.first < b.first end)
    end
  end
  return ids, texts
end
