-- The records of named jobs: each says that a job of this id lives. What a script
-- changes is written in bulk by save_records, which must come at the script's end.
-- Records are in many hashes, chosen by two characters of the id: small hashes take
-- half the memory of a large one.
-- KEYS: 1 begins the keys of the records of named jobs (hashes)
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local JOBS = KEYS[1]
local living = {} -- id: true or false, as this script left it

local function records_of(id)
  return JOBS .. ':' .. (string.byte(id, -2) or 0) % 32 .. '.' .. (string.byte(id, -3) or 0) % 32
end

local function lives(id)
  if living[id] ~= nil then return living[id] end
  return redis.call('HEXISTS', records_of(id), id) == 1
end

-- set_record notes that a job lives, or with false that it does not any more.
local function set_record(id, alive)
  living[id] = alive
end

local function each_part(command, key, args)
  for from = 1, #args, 500 do redis.call(command, key, unpack(args, from, math.min(from + 499, #args))) end
end

local function save_records()
  local set, gone = {}, {}
  for id, alive in pairs(living) do
    local key = records_of(id)
    local list = alive and set or gone
    list[key] = list[key] or {}
    list = list[key]
    list[#list + 1] = id
    if alive then list[#list + 1] = '1' end
  end
  for key, list in pairs(set) do each_part('HSET', key, list) end
  for key, list in pairs(gone) do each_part('HDEL', key, list) end
end
