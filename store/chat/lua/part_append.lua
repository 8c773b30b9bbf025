-- Adding a message to one chat's log.
-- KEYS: none but those of part_chat.lua
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- pass_own moves the sender's position over his own message if he had
-- acknowledged all before it; else the message is entered among his own, which
-- don't count as unread.
local function pass_own(c, sender, acked, ttl)
  if acked == c.last - 1 then
    redis.call('ZADD', MEMBERS, c.last, sender)
    trim_acked(c)
    return
  end
  local own = own_of(sender)
  redis.call('ZADD', own, c.last, c.last)
  redis.call('PEXPIRE', own, ttl)
end

-- mark_due notes that pushes are due from this message on, unless some were.
local function mark_due(c)
  if c.pushed then return end
  c.pushed = c.last - 1
  redis.call('HSET', META, 'p', c.pushed)
  redis.call('ZADD', DUE, c.now, NAME)
end

-- append adds a message m: its sender, his position acked, text, the channel to
-- publish it on, and whether to push it. The log's expiry is put off once in half
-- a margin, and for a new log.
local function append(c, m)
  local fresh, half = c.head > c.last, MARGIN / 2
  local before = math.floor(c.at / half)
  c.last, c.at = c.last + 1, math.max(c.now, c.at)
  local entry, ttl = c.at .. ' ' .. m.sender .. ' ' .. m.text, c.at - c.now + AGE + MARGIN
  redis.call('RPUSH', LOG, entry)
  if fresh or before ~= math.floor(c.at / half) then redis.call('PEXPIRE', LOG, ttl) end
  if m.push then mark_due(c) end
  pass_own(c, m.sender, m.acked, ttl)
  save(c)
  redis.call('PUBLISH', m.channel, c.epoch .. ' ' .. int(c.last) .. ' ' .. entry)
end
