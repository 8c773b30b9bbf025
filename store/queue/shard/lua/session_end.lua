-- A session ends: what it holds goes back, uncounted, in bounded steps; the shard's
-- looks do the rest.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 session, 2 retention of tombstones in ms, 3 of groups, 4 of reports, 5 a
--       series whose calls need not be remembered any more, 6 another
-- RETURNS: {entries put back, 1 it is gone or 0 something is left}
-- @include lua/clock.lua
-- @include lua/part_shard.lua
-- @include lua/part_text.lua
-- @include lua/part_stream.lua
-- @include lua/part_write.lua
-- @include lua/part_tombstone.lua
-- @include lua/part_group.lua
-- @include lua/part_report.lua
-- @include lua/part_end.lua
-- @include lua/part_session.lua
-- @include lua/part_back.lua
local session = ARGV[1]
redis.call('DEL', P .. 'memo:' .. ARGV[5], P .. 'memo:' .. ARGV[6])
if redis.call('ZREM', OWNERS, session) == 1 then redis.call('ZADD', GONE, 0, session) end
local counted = redis.call('ZSCORE', GONE, session)
if not counted then return { 0, 1 } end
local back, gone = empty_session(session, counted ~= '0', 100, { retention = tonumber(ARGV[2]), most = 1e9 })
save(tonumber(ARGV[3]), tonumber(ARGV[4]))
return { back, gone and 1 or 0 }
