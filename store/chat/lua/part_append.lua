-- Adding a message to one chat's log.
-- KEYS: none but those of part_chat.lua
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- take moves the sender's position over his own message if he had seen all
-- before it; else the message is among his own, which he need not read.
local function take(c, sender, acked, ttl)
  local id = int(c.last)
  if acked == c.last - 1 then
    redis.call('ZADD', MEMBERS, id, sender)
    seen(c)
    return
  end
  redis.call('ZADD', own_of(sender), id, id)
  redis.call('PEXPIRE', own_of(sender), ttl)
end

-- mark notes that pushes are due from this message on, unless some were.
local function mark(c)
  if c.pushed then return end
  c.pushed = c.last - 1
  redis.call('HSET', META, 'p', int(c.pushed))
  redis.call('ZADD', DUE, int(c.now), NAME)
end

-- append adds a message; acked is its sender's position.
local function append(c, sender, text, acked, push)
  c.last, c.at = c.last + 1, math.max(c.now, c.at)
  local entry, ttl = int(c.at) .. ' ' .. sender .. ' ' .. text, int(c.at - c.now + AGE + MARGIN)
  redis.call('RPUSH', LOG, entry)
  redis.call('PEXPIRE', LOG, ttl)
  if push then mark(c) end
  take(c, sender, acked, ttl)
  save(c)
  redis.call('PUBLISH', 'ff:live:chat:' .. NAME, c.epoch .. ' ' .. int(c.last) .. ' ' .. entry)
end
