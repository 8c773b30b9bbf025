-- Ends a build: adds the contacts of SQL, keeps newer entries, and sets the floor to the
-- first contact that was left out, or to the highest one that was trimmed in the meantime.
-- KEYS: 1 recent (zset), 2 state (hash), 3 build (string)
-- ARGV: 1 token, 2 relations counter before SQL was read, 3 most members,
--       4 lifetime of the index in ms, 5 how much longer recent lives than
--       state, in ms, 6 score of the first left out ('' for none),
--       7 contact of the same, 8.. contact and score in turn
-- RETURNS: status 0 the right is lost, 1 done, 2 a relationship changed: read
--          SQL again; then the relations counter
-- @include lua/part_index.lua
local build = KEYS[3]
local token, relations, max = ARGV[1], ARGV[2], tonumber(ARGV[3])
local lifetime, margin, out_score, out_contact = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local first, step = 8, 2

local now = redis.call('HGET', state, 'r')
if redis.call('GET', build) ~= token or not now then
  return { 0, '' }
end
if now ~= relations then
  return { 2, now }
end
local trimmed = redis.call('HMGET', state, 'bs', 'bm')
redis.call('HDEL', state, 'fs', 'fm', 'u')
if trimmed[1] then lift('f', trimmed[1], trimmed[2]) end
if out_score ~= '' then lift('f', out_score, out_contact) end
for i = first, #ARGV - step + 1, step do
  raise(ARGV[i], ARGV[i + 1], max, margin)
end
redis.call('HDEL', state, 'bs', 'bm')
redis.call('HINCRBY', state, 'q', 1)
redis.call('PEXPIRE', state, lifetime)
redis.call('PEXPIRE', recent, lifetime + margin)
redis.call('DEL', build)
return { 1, now }
