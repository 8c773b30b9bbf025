-- Opens a partition that was read from the record, for this run of the server.
-- KEYS: 1 sale
-- ARGV: 1 run
-- RETURNS: 0 there is no sale, 1 open
if redis.call('HEXISTS', KEYS[1], 'version') == 0 then return 0 end
redis.call('HDEL', KEYS[1], 'closed')
redis.call('HSET', KEYS[1], 'run', ARGV[1])
return 1
