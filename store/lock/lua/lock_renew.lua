-- Extends a lease, even if it is over, as long as nobody has acquired the lock since.
-- KEYS: 1 the record
-- ARGV: 1 fence, 2 lease in ms, 3 retention in ms
-- RETURNS: 1 ok, 0 lost
-- @include lua/record.lua
local key, fence, lease, retention = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local r = read_record(redis.call('GET', key))
if not r or r.state ~= 'R' or r.fence ~= fence then return 0 end
r.till = lease_end(math.floor(now_us() / 1000), lease)
-- The first write, so that a full Redis refuses none. Not a DEL: while the slot moves, a key that a script has
-- deleted can't be written again.
redis.call('PEXPIRE', key, int(lease + retention))
redis.call('SET', key, text_of(r), 'PX', int(lease + retention))
return 1
