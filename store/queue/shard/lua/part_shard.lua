-- The keys of a shard. Every key has the prefix, and with it the hash tag, of KEYS[1].
-- KEYS: 1 begins the keys of the records of named jobs (hashes), 2 a key that never
--       exists: while a slot moves, a script with a key that is missing is refused
--       before it runs, instead of stopping midway
-- ARGV: none
-- RETURNS: nothing; it only defines names
-- TAKES: nothing
-- GIVES: P, NEVER, MAIN, READY, LATER, HEADS, UNIQUES, STATS, OWNERS, GONE, DEAD, DEADIDS,
--        STREAM, READER, record_of
local P, NEVER = string.sub(KEYS[1], 1, -5), KEYS[2]
local MAIN, READY, LATER = P .. 'main', P .. 'ready', P .. 'later'
local HEADS, UNIQUES, STATS = P .. 'heads', P .. 'uniques', P .. 'stats'
local OWNERS, GONE = P .. 'owners', P .. 'gone'
local DEAD, DEADIDS = P .. 'dead', P .. 'deadids'
local STREAM = { m = MAIN, r = READY, f = P .. 'few', a = P .. 'alone' }
local READER = 'reader' -- the consumer of all blocking reads

-- record_of names the hash that has a field for the id of a named job as long as the job
-- lives. There are 1,024 of these hashes, because small ones take half the memory.
local function record_of(id)
  return KEYS[1] .. ':' .. (string.byte(id, -2) or 0) % 32 .. '.' .. (string.byte(id, -3) or 0) % 32
end
