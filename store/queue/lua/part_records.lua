-- The records of named jobs: what was read is kept, and what a script changes is
-- written in bulk by save_records, which must come at its end.
-- A record is the job's place (part_shard.lua); before it a z says that the job
-- was cancelled while it runs. Records are in many hashes, by characters of the id
-- that differ: small ones take half the memory of a large one.
-- KEYS: 1 begins the keys of the records of named jobs (hashes)
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local JOBS = KEYS[1]
local texts, changed = {}, {}

local function records_of(id)
  return JOBS .. ':' .. (string.byte(id, -2) or 0) % 32 .. '.' .. (string.byte(id, -3) or 0) % 32
end

local function record_of(id)
  if texts[id] == nil then texts[id] = redis.call('HGET', records_of(id), id) end
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
    local key = records_of(id)
    local list = place and set or gone
    list[key] = list[key] or {}
    list = list[key]
    list[#list + 1] = id
    if place then list[#list + 1] = place end
  end
  for key, list in pairs(set) do each_part('HSET', key, list) end
  for key, list in pairs(gone) do each_part('HDEL', key, list) end
end
