-- Removes a partition of a sale that is deleted, unless it was loaded since, or opens a partition
-- again whose sale is not deleted after all. Naturally idempotent. It takes a moment whatever the
-- size: Redis frees the memory in the background. A partition with facts that were not moved stays.
-- KEYS: 1 sale, then all other keys of the partition, its outbox of facts (stream) last
-- ARGV: 1 whether to remove it (1), or to open it again, 2 to remove it the load that it must come
--       from, and to open it the deletion that must have closed it, 3 channel for the end of the
--       sale ('' for none)
-- RETURNS: 0 it is of another load, or closed by something else, 1 done, 2 facts must be moved first
local SALE = KEYS[1]
local remove, from, channel = ARGV[1] == '1', ARGV[2], ARGV[3]
local s = redis.call('HMGET', SALE, 'version', 'loading', 'closed')
local present = remove and s[2] or not remove and s[3] or ''
if not s[1] or present ~= from then return 0 end
if remove and redis.call('XLEN', KEYS[#KEYS]) > 0 then return 2 end
if remove then redis.call('UNLINK', unpack(KEYS)) else redis.call('HDEL', SALE, 'closed') end
if channel ~= '' then redis.pcall('PUBLISH', channel, 'deleted') end
return 1
