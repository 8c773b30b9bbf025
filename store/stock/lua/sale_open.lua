-- Opens a partition that this load has read from the record in this run of the server; after
-- another run or load it may lack some of that. The record does not have the time of the last
-- reservation: where Redis lost it, the idle time begins anew. If the partition was in this run before,
-- as after a deletion whose process died, Redis has lost nothing of it.
-- KEYS: 1 sale
-- ARGV: 1 run (see run_id), 2 the loading
-- RETURNS: 1 open, 4 there is no such sale, 6 it was loaded in another run, or by another
--          load
-- @include lua/part_run.lua
local SALE, run, loading = KEYS[1], run_id(ARGV[1]), ARGV[2]
local s = redis.call('HMGET', SALE, 'version', 'closed', 'used', 'loading', 'run_id')
if not s[1] then return 4 end
if s[4] ~= loading or s[2] and s[2] ~= '@' .. run then return 6 end
if not s[2] then return 1 end
redis.call('HDEL', SALE, 'closed')
local now = redis.call('TIME')[1] .. '000'
redis.call('HSET', SALE, 'run_id', run, 'used', s[3] or now)
if s[5] ~= run then redis.call('HSET', SALE, 'opened', now) end
return 1
