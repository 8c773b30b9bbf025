-- The records of named jobs: what was read is kept, and what a script changes is
-- written in bulk by save_records, which must come at its end.
-- A record is the job's place (part_shard.lua); before it a z says that the job
-- was cancelled while it runs.
-- KEYS: 1 the records of named jobs (hash) of the including script
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local JOBS = KEYS[1]
local texts, changed = {}, {}

local function record_of(id)
  if texts[id] == nil then texts[id] = redis.call('HGET', JOBS, id) end
  return texts[id]
end

-- set_record notes a job's place, or with false that it has none any more.
local function set_record(id, place)
  texts[id], changed[id] = place, place
end

local function each_part(command, key, args)
  for from = 1, #args, 500 do redis.call(command, key, unpack(args, from, math.min(from + 499, #args))) end
end

local function save_records()
  local set, gone = {}, {}
  for id, place in pairs(changed) do
    if place then
      set[#set + 1], set[#set + 2] = id, place
    else
      gone[#gone + 1] = id
    end
  end
  each_part('HSET', JOBS, set)
  each_part('HDEL', JOBS, gone)
end
