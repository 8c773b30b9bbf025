-- Adding a message to one chat's log.
-- KEYS: none but those of part_chat.lua
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- take moves the sender's position over his own message if he had seen all
-- before it; else the message is among his own, which he need not read.
local function take(c, sender, acked, ttl)
  if acked == c.last - 1 then
    redis.call('ZADD', MEMBERS, c.last, sender)
    seen(c)
    return
  end
  local own = own_of(sender)
  redis.call('ZADD', own, c.last, c.last)
  redis.call('PEXPIRE', own, ttl)
end

-- mark notes that pushes are due from this message on, unless some were.
local function mark(c)
  if c.pushed then return end
  c.pushed = c.last - 1
  redis.call('HSET', META, 'p', c.pushed)
  redis.call('ZADD', DUE, c.now, NAME)
end

-- append adds a message; acked is its sender's position. The log's end is put
-- off once in half a margin, and for a new log.
local function append(c, sender, text, acked, push)
  local fresh, half = c.head > c.last, MARGIN / 2
  local before = math.floor(c.at / half)
  c.last, c.at = c.last + 1, math.max(c.now, c.at)
  local entry, ttl = c.at .. ' ' .. sender .. ' ' .. text, c.at - c.now + AGE + MARGIN
  redis.call('RPUSH', LOG, entry)
  if fresh or before ~= math.floor(c.at / half) then redis.call('PEXPIRE', LOG, ttl) end
  if push then mark(c) end
  take(c, sender, acked, ttl)
  save(c)
  redis.call('PUBLISH', 'ff:live:chat:' .. NAME, c.epoch .. ' ' .. int(c.last) .. ' ' .. entry)
end
