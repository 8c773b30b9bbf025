-- A process leaves a shard: entries delivered to it but never begun are put
-- back, and its consumer goes when nothing is pending on it.
-- KEYS: 1 the shard's live records
-- ARGV: 1 owner
-- RETURNS: {1, entries put back, 1 the consumer is gone or 0 it stays}
-- @include lua/record.lua
-- @include lua/part_records.lua
-- @include lua/part_shard.lua
local owner, back, left = ARGV[1], 0, 0
for _, letter in ipairs({ 'm', 'r', 'a' }) do
  local stream = STREAM[letter]
  local pending = redis.call('XPENDING', stream, 'g', '-', '+', 100, owner)
  for _, p in ipairs(pending) do
    local e = entry_at(stream, p[1])
    local r = e and record_of(e.i)
    if r and r.state ~= 'Q' then
      left = left + 1
    else
      redis.call('XACK', stream, 'g', p[1])
      redis.call('XDEL', stream, p[1])
      if r then put_stream(e, r, front(r)) end
      back = back + 1
    end
  end
end
save_records()
if left > 0 then return { 1, back, 0 } end
for _, letter in ipairs({ 'm', 'r', 'a' }) do
  if #redis.call('XPENDING', STREAM[letter], 'g', '-', '+', 1, owner) > 0 then return { 1, back, 0 } end
end
for _, letter in ipairs({ 'm', 'r', 'a' }) do redis.call('XGROUP', 'DELCONSUMER', STREAM[letter], 'g', owner) end
redis.call('DEL', P .. 'call:' .. owner, P .. 'fin:' .. owner)
return { 1, back, 1 }
