-- Takes a lock if it is free or its lease is over. A repeat of the same request gets the same
-- answer.
-- KEYS: 1 the record
-- ARGV: 1 request, which is also the owner: an id, or "<name>.<digest of the body>", 2 lease in ms,
--       3 most attempts, 4 retention in ms, 5 1: the most attempts are those of the first acquire
-- RETURNS: {1 acquired, attempt, fence, ms of the lease that are left, 1 a repeat or 0},
--          {2 held, attempt, ms left}, {3 done},
--          {4 exhausted, 1 this request is the first to be told or 0},
--          {5 another body of this name holds it}, {6 the most attempts are others, these}
-- @include lua/record.lua
local key, me, lease, most, retention = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local fixed_most = ARGV[5] == '1'
local us = now_us()
local ms = math.floor(us / 1000)
local text = redis.call('GET', key)
local mark = text and string.sub(text, 1, 1)
if mark == 'D' then return { 3 } end
if mark == 'X' then return { 4, string.sub(text, 3) == me and 1 or 0 } end

local r = read_record(text) or { state = 'Q', failures = '0', most = fixed_most and ARGV[3] or '0', fence = '0', till = 0, owner = '' }
local left = left_of(r, ms)
local alive = r.state == 'R' and left >= 0
local name = string.match(me, '^.-%.')
if alive and name and r.owner ~= me and string.sub(r.owner, 1, #name) == name then return { 5 } end
if fixed_most and r.most ~= ARGV[3] then return { 6, tonumber(r.most) } end
if alive then
  if r.owner == me then return { 1, r.failures + 1, r.fence, left, 1 } end
  return { 2, r.failures + 1, math.max(1, left) }
end
-- A lease that ended without a result counts as a failed attempt.
if r.state == 'R' then r.failures = r.failures + 1 end
if tonumber(r.failures) >= most then
  redis.call('SET', key, 'X:' .. me, 'PX', int(retention))
  return { 4, 1 }
end
r.state, r.fence, r.till, r.owner = 'R', next_fence(tonumber(r.fence), us), lease_end(ms, lease), me
redis.call('SET', key, text_of(r), 'PX', int(lease + retention))
return { 1, r.failures + 1, r.fence, lease, 0 }
