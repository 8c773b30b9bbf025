-- Makes leases longer. A job that another took, or that was cancelled, is lost.
-- KEYS: 1 the shard's live records
-- ARGV: 1 lease in ms, then per job: id, fence
-- RETURNS: {1, per job 1 renewed or 0 lost}
-- @include lua/record.lua
local jobs, lease = KEYS[1], tonumber(ARGV[1])
local till = math.floor(now_us() / 1000) + lease
local out = { 1 }
for i = 2, #ARGV, 2 do
  local r = read_record(redis.call('HGET', jobs, ARGV[i]))
  local ok = r and r.state == 'R' and r.fence == ARGV[i + 1]
  if ok then
    r.till = till
    redis.call('HSET', jobs, ARGV[i], text_of(r))
  end
  out[#out + 1] = ok and 1 or 0
end
return out
