-- Compares what a session holds with what it believes to hold, after Redis forgot an
-- answered call. What is pending and unknown goes back, uncounted.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 session, 2 retention of tombstones in ms, 3 of groups, 4 of reports, then the
--       places of the jobs that it believes to hold
-- RETURNS: {1 the session is alive or 0, places that are not pending}
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
local session, believed = ARGV[1], {}
if not redis.call('ZSCORE', OWNERS, session) then return { 0, {} } end
for i = 5, #ARGV do believed[ARGV[i]] = true end
for _, letter in ipairs(LETTERS) do
  -- as many as one process may hold, which its InFlight bounds
  for _, p in ipairs(redis.call('XPENDING', STREAM[letter], 'g', '-', '+', 100000, session)) do
    local place = letter .. p[1]
    if believed[place] then
      believed[place] = nil
    else
      give_back(letter, p[1], session, false, { retention = tonumber(ARGV[2]) })
    end
  end
end
save(tonumber(ARGV[3]), tonumber(ARGV[4]))
local lost = {}
for place in pairs(believed) do lost[#lost + 1] = place end
return { 1, lost }
