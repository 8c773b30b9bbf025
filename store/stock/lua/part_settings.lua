-- The settings of a sale, as one partition has them.
-- KEYS: 1 sale
-- ARGV: those of the including script: from one position on starts, ends, limit,
--       hold, idle, partitions, max_hold, lows ("<sku>=<low_at>,...", 0: none); from another the skus; and on
-- RETURNS: nothing; it only defines functions
local FIELDS = { 'starts', 'ends', 'limit', 'hold', 'idle', 'partitions', 'max_hold', 'lows' }
local TERMS = 6

local function same_settings(at)
  for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(FIELDS))) do
    if (value or '0') ~= ARGV[at + i - 1] then return false end -- an older sale has no max_hold and no lows
  end
  return true
end

-- write_settings stores the settings in fields of their own, and the first six of FIELDS together in
-- the field terms, which a reservation reads at once.
local function write_settings(at, first, step)
  local args, skus = { 'terms', table.concat(ARGV, ' ', at, at + TERMS - 1) }, {}
  for i, field in ipairs(FIELDS) do
    args[#args + 1] = field
    args[#args + 1] = ARGV[at + i - 1]
  end
  for i = first, #ARGV, step do skus[#skus + 1] = ARGV[i] end
  redis.call('HSET', KEYS[1], 'skus', table.concat(skus, ','), unpack(args))
end
