-- Reads a page of a user's index, oldest joins first: the entries with a stamp and those
-- after them. The entry from which the stamp was taken may have been removed.
-- KEYS: 1 index (zset)
-- ARGV: 1 stamp ('0' for the beginning), 2 most entries in addition to those with the stamp
-- RETURNS: the time in us, then the entries: chat and stamp in turn
local index, stamp, limit = KEYS[1], ARGV[1], tonumber(ARGV[2])

local time = redis.call('TIME')
local from = redis.call('ZCOUNT', index, '-inf', '(' .. stamp)
local same = redis.call('ZCOUNT', index, stamp, stamp) -- 1, unless two joins had the same us or the entry was removed
local entries = redis.call('ZRANGE', index, from, from + same + limit - 1, 'WITHSCORES')
return { string.format('%.0f', time[1] * 1000000 + time[2]), entries }
