-- The tombstones of named jobs, in buckets: hashes that many ids share, because a small
-- hash costs a fraction of a key for each.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, set_fields, touch
-- GIVES: buckets_of, mark_end, save_ends
-- A bucket takes about FULL ids; then each of its 16 successors, told apart by
-- a character of the id from the end, takes as many, and so on: so buckets are
-- few when there is little to do and small when there is much. The buckets of one
-- half minute begin with its characters, the first 4 of an id made by NewID; another
-- id has a bucket of its own. Ids are never taken out, so a full one stays full.
local FULL, LEVELS, sizes, ends = 128, 3, {}, {}

-- buckets_of lists the buckets in which a job's tombstone may be. A new one goes to the
-- last of them.
local function buckets_of(e)
  local base = #e.g == 32 and e.g or e.i
  if #base ~= 32 then return { P .. 'done:' .. e.i } end
  local all = { P .. 'done:' .. string.sub(base, 1, 4) }
  for level = 1, LEVELS - 1 do
    local key = all[level]
    sizes[key] = sizes[key] or redis.call('HLEN', key)
    if sizes[key] < FULL then break end
    all[level + 1] = key .. string.byte(e.i, -level) % 16 .. '.'
  end
  return all
end

-- mark_end notes the end of a job: D done, with the note of its result, X dead; save_ends writes it.
local function mark_end(e, letter, ttl)
  local all = buckets_of(e)
  local list = ends[all[#all]] or { all = all, ttl = ttl }
  ends[all[#all]] = list
  list[#list + 1], list[#list + 2] = e.i, letter
end

local function save_ends()
  for key, list in pairs(ends) do
    set_fields(key, list, 1, #list)
    -- A bucket that ended early would hide its successors.
    for _, one in ipairs(list.all) do touch(one, list.ttl, true) end
  end
end
