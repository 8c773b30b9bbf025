-- Adding messages to one chat's log.
-- KEYS: none but those of part_chat.lua
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- mark_due notes that pushes are due from the next message on, unless some were.
local function mark_due(c)
  if c.pushed then return end
  c.pushed = c.last
  call('ZADD', DUE, c.now, NAME)
end

-- run_id names the server's run, which is another after each restart and each promotion
-- of a replica: the beginning of the id of its replication.
local run
local function run_id()
  if RUN ~= '*' then return RUN end
  run = run or match(call('INFO', 'replication'), 'master_replid:(%w%w%w%w%w%w%w%w%w%w%w%w)') or '-'
  return run
end

-- note_run gives a chat another epoch if its last message was added in another run of the
-- server, which may have had messages that this one has not, and whose ids it gives again.
-- Up to the last id that this run found, both epochs have the same messages: was and
-- since say so to readers.
local function note_run(c)
  local now = run_id()
  if now == c.run then return end
  c.was, c.since = c.epoch, c.last
  c.epoch, c.run = life_of(c.epoch) .. '.' .. now, now
end

-- enter_own notes messages from the nth on among their senders' own, which don't count
-- as unread.
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

-- tell publishes a message. On a channel with a tag, as those of a Cluster are, it
-- publishes in the slot only, if the server can do that (from 7.0 on).
local function tell(channel, text)
  if string.find(channel, '{', 1, true) and type(redis.pcall('SPUBLISH', channel, text)) == 'number' then return end
  call('PUBLISH', channel, text)
end

-- leading counts the messages at the beginning that have the first one's sender.
local function leading(senders)
  for i = 2, #senders do
    if senders[i] ~= senders[1] then return i - 1 end
  end
  return #senders
end

-- append adds messages to a chat of which the meta was read, given as the log has them
-- and by their senders, publishes them on a channel and notes whether to push them. If
-- the first one's sender had acknowledged all before them, as acked says, his position
-- moves over those that he begins with; only if he was the slowest member can there be
-- something to trim. The log's expiry is put off once in half a margin, and for a new log.
local function append(c, entries, senders, acked, channel, push)
  local count, half = #entries, MARGIN / 2
  note_run(c)
  local at = max(c.now, c.at)
  local ttl, put_off = at - c.now + AGE + MARGIN, math.floor(c.at / half) ~= math.floor(at / half)
  local length = call('RPUSH', LOG, unpack(entries))
  see(c, length - count)
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
