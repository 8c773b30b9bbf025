-- The records of live jobs, read and written in bulk: what was read is kept, and
-- what a script changes is written by save_records, which must come at its end.
-- KEYS: 1 the live records (hash) of the including script
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local JOBS = KEYS[1]
local texts, changed = {}, {}

local function load_records(ids)
  for from = 1, #ids, 500 do
    local to = math.min(from + 499, #ids)
    for i, text in ipairs(redis.call('HMGET', JOBS, unpack(ids, from, to))) do texts[ids[from + i - 1]] = text end
  end
end

local function record_of(id)
  if texts[id] == nil then texts[id] = redis.call('HGET', JOBS, id) end
  return read_record(texts[id])
end

-- set_record notes a job's record, or with nil that it has none any more.
local function set_record(id, r)
  local text = r and text_of(r) or false
  texts[id], changed[id] = text, text
end

local function each_part(command, key, args)
  for from = 1, #args, 500 do redis.call(command, key, unpack(args, from, math.min(from + 499, #args))) end
end

local function save_records()
  local set, gone = {}, {}
  for id, text in pairs(changed) do
    if text then
      set[#set + 1], set[#set + 2] = id, text
    else
      gone[#gone + 1] = id
    end
  end
  each_part('HSET', JOBS, set)
  each_part('HDEL', JOBS, gone)
end
