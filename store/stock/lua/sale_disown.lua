-- Marks a sale whose changes SQL refuses because another Redis has loaded it since: it must be
-- loaded from the record before it goes on. The idempotency records of the refused changes are
-- deleted, so a repeat of those calls makes the changes again. Naturally idempotent.
-- KEYS: 1 sale, 2 restocks not on record (hash), then the idempotency record of each
-- ARGV: 1 run (see run_id), 2 the loading that was refused, 3 the version that was
-- RETURNS: 0 it cannot be worked on, or was loaded or changed since, 1 marked
-- @include lua/part_run.lua
local SALE, run, loading, version = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local s = redis.call('HMGET', SALE, 'version', 'closed', 'run_id', 'loading')
if unusable(s[1], s[2], s[3], run) or (s[4] or '') ~= loading or s[1] ~= version then return 0 end
for i = 2, #KEYS do redis.call('DEL', KEYS[i]) end
redis.call('HSET', SALE, 'run_id', '?')
return 1
