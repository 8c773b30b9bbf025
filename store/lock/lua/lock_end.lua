-- Ends a hold: done for good, failed (counted) or released (not counted), and wakes waiters.
-- The last holder's result is accepted even after its lease, as long as nobody has acquired
-- the lock since. A repeat changes nothing.
-- KEYS: 1 the record
-- ARGV: 1 fence, or the request that took the lock, 2 done, fail or release, 3 retention in ms, 4 channel
-- RETURNS: 1 ok, 0 lost
-- @include lua/record.lua
local key, hold, outcome, retention, channel = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local text = redis.call('GET', key)
if text == 'D:' .. hold then return outcome == 'done' and 1 or 0 end
local r = read_record(text)
if not r or r.fence ~= hold and r.owner ~= hold then return 0 end
if r.state ~= 'R' then return r.owner == outcome and 1 or 0 end
-- The first write, so that a full Redis refuses none. Not a DEL: while the slot moves, a key that a script has
-- deleted can't be written again.
redis.call('PEXPIRE', key, int(retention))
if outcome == 'done' then
  redis.call('SET', key, 'D:' .. r.fence, 'PX', int(retention))
else
  if outcome == 'fail' then r.failures = r.failures + 1 end
  r.state, r.till, r.owner = 'Q', 0, outcome
  redis.call('SET', key, text_of(r), 'PX', int(retention))
end
redis.pcall('PUBLISH', channel, outcome)
return 1
