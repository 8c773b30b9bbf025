-- Adding messages to one chat's log.
-- KEYS: none but those of part_chat.lua
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- mark_due records that pushes are due from the next message on, unless some were due before.
local function mark_due(c)
  if c.pushed then return end
  c.pushed = c.last
  call('ZADD', DUE, c.now, NAME)
end

-- NOW_RUN names the server's run: the beginning of its replication id, which changes with
-- each restart and each promotion of a replica. It is read before anything is written: a
-- user of Redis without the right to INFO is refused then, and nothing has changed.
local NOW_RUN = RUN ~= '*' and RUN or match(call('INFO', 'replication'), 'master_replid:(%w%w%w%w%w%w%w%w%w%w%w%w)') or '-'

-- note_run gives a chat another epoch if its last message was added in another run of the
-- server. That run may have had messages which this one lost, and whose ids are used again.
-- Up to the last id that this run found, both epochs have the same messages: was and since
-- tell readers so.
local function note_run(c)
  if NOW_RUN == c.run then return end
  c.was, c.since = c.epoch, c.last
  c.epoch, c.run = life_of(c.epoch) .. '.' .. NOW_RUN, NOW_RUN
end

-- enter_own adds the messages from the nth on to their senders' own messages, which do not
-- count as unread.
local function enter_own(c, senders, nth, ttl)
  local own = {}
  for i = nth, #senders do
    local ids, id = own[senders[i]] or {}, int(c.last + i)
    own[senders[i]] = ids
    ids[#ids + 1] = id
    ids[#ids + 1] = id
  end
  for sender, ids in pairs(own) do
    call('ZADD', own_of(sender), unpack(ids))
    call('PEXPIRE', own_of(sender), ttl)
  end
end

-- leading counts the messages at the beginning that have the sender of the first one.
local function leading(senders)
  for i = 2, #senders do
    if senders[i] ~= senders[1] then return i - 1 end
  end
  return #senders
end

-- weigh_log counts the bytes of the whole log.
local function weigh_log()
  local bytes, step = 0, 100
  for from = 0, call('LLEN', LOG) - 1, step do
    bytes = bytes + weigh(call('LRANGE', LOG, from, from + step - 1))
  end
  return bytes
end

-- append adds messages to a chat whose meta was read. The messages are in the form of the
-- log, with a list of their senders and the bytes of all their texts and data. It publishes
-- them on a channel and records whether to push them. If the sender of the first one had
-- acknowledged all earlier messages (acked), that sender's position moves over the sender's
-- messages at the beginning. Only if this sender was the slowest member can there be something
-- to trim. The expiry of the log is extended once in half a margin, and for a new log.
local function append(c, entries, senders, bytes, acked, channel, push)
  local count, half = #entries, MARGIN / 2
  note_run(c)
  local at = max(c.now, c.at)
  local ttl, put_off = at - c.now + AGE + MARGIN, math.floor(c.at / half) ~= math.floor(at / half)
  local length = call('RPUSH', LOG, unpack(entries))
  see(c, length - count)
  c.bytes = c.bytes and c.bytes + bytes or weigh_log()
  if push then mark_due(c) end
  if put_off or length == count then call('PEXPIRE', LOG, ttl) end
  local moved = acked == c.last and leading(senders) or 0
  if moved > 0 then call('ZADD', MEMBERS, int(c.last + moved), senders[1]) end
  if moved < count then enter_own(c, senders, moved + 1, ttl) end
  local before = c.epoch .. ' '
  for i = 1, count do tell(channel, before .. int(c.last + i) .. ' ' .. entries[i]) end
  c.last, c.at = c.last + count, at
  if moved > 0 and acked < c.head then trim_acked(c) end
  save(c, count)
end
