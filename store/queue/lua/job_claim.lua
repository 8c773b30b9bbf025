-- Takes the next jobs of a shard for one process, bounded by number and bytes.
-- Run again with the same call number it returns the same jobs.
-- KEYS: 1 the shard's live records
-- ARGV: 1 owner, 2 lease in ms, 3 call number, 4 most jobs, 5 most bytes,
--       6 mode: '' next jobs, 'recover' own entries that were delivered but
--       never begun as well, 'alone' one job that must run by itself,
--       7 and on: entries delivered to the owner before (letter and entry id)
-- RETURNS: {1, Redis time in us, ms till the next delayed job or -1, jobs that
--          must run alone, entries waiting, then per job a list: place, id,
--          type, key, unique, group, guard, enqueued in ms, attachments,
--          payload, attempt, fence, guard's value or nil}
-- @include lua/record.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
local owner, lease, call = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local want, budget, mode = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local us = now_us()
local ms = math.floor(us / 1000)
local paused = redis.call('EXISTS', P .. 'paused') == 1
local out, begun, bytes, drop = {}, {}, 0, { m = {}, r = {}, a = {} }

local function give(letter, eid, e, r)
  local guard = e.w ~= '' and redis.call('GET', P .. 'guard:' .. e.w)
  out[#out + 1] = { letter .. eid, e.i, e.t, e.k, e.u, e.g, e.w, e.s, e.a, e.p, r.failures + 1, r.fence, guard }
  begun[#begun + 1] = letter .. eid
  bytes = bytes + #e.p
end

local function begin(letter, eid, e, r)
  if paused and redis.call('SISMEMBER', P .. 'paused', e.t) == 1 then
    drop[letter][#drop[letter] + 1] = eid
    park(e, r, 'type:' .. e.t)
    return yield(e.k, e.i)
  end
  r.state, r.fence, r.till, r.owner = 'R', next_fence(r.fence, us), ms + lease, owner
  set_record(e.i, r)
  give(letter, eid, e, r)
end

-- An entry whose job is not on record, or is elsewhere, is a leftover. What
-- another owner runs is left alone: the record decides.
local function take(letter, eid, e, replay)
  local r = e.i ~= '' and record_of(e.i)
  if not r then
    drop[letter][#drop[letter] + 1] = eid
  elseif r.state == 'Q' then
    begin(letter, eid, e, r)
  elseif replay and r.state == 'R' and r.owner == owner and r.till > ms then
    give(letter, eid, e, r)
  end
end

local function adopt(place, replay)
  local letter, eid = string.sub(place, 1, 1), string.sub(place, 2)
  local e = entry_at(STREAM[letter], eid)
  if e then take(letter, eid, e, replay) end
end

local function read(letter, n)
  local got = redis.call('XREADGROUP', 'GROUP', 'g', owner, 'COUNT', n, 'STREAMS', STREAM[letter], '>')
  if not got or not got[1] then return 0 end
  local entries, ids = {}, {}
  for n, one in ipairs(got[1][2]) do
    entries[n] = entry_of(one[2])
    ids[n] = entries[n].i
  end
  load_records(ids)
  for n, one in ipairs(got[1][2]) do take(letter, one[1], entries[n], false) end
  return #ids
end

local last = redis.call('GET', P .. 'call:' .. owner)
if last and string.match(last, '^%S+') == call then
  for place in string.gmatch(string.sub(last, #call + 1), '%S+') do adopt(place, true) end
else
  for i = 7, #ARGV do adopt(ARGV[i], false) end
  if mode == 'recover' then
    for _, letter in ipairs({ 'r', 'm' }) do
      for _, p in ipairs(redis.call('XPENDING', STREAM[letter], 'g', '-', '+', 100, owner)) do adopt(letter .. p[1], false) end
    end
  end
  local letter = mode == 'alone' and 'a' or 'r'
  for _ = 1, 64 do
    if #out >= want or bytes >= budget then break end
    local n = math.min(16, want - #out)
    if read(letter, n) == 0 then
      if letter ~= 'r' then break end
      letter = 'm'
    end
  end
  if #begun > 0 then
    redis.call('SET', P .. 'call:' .. owner, call .. ' ' .. table.concat(begun, ' '), 'PX', int(lease + 60000))
  end
end
remove(drop)
save_records()
local head = { 1, int(us), next_due(ms), redis.call('XLEN', ALONE), redis.call('XLEN', MAIN) + redis.call('XLEN', READY) }
for i, job in ipairs(out) do head[i + 5] = job end
return head
