-- Adding messages to one chat's log.
-- KEYS: none but those of part_chat.lua
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- mark_due notes that pushes are due from the last message on, unless some were.
local function mark_due(c)
  if c.pushed then return end
  c.pushed = c.last - 1
  redis.call('HSET', META, 'p', c.pushed)
  redis.call('ZADD', DUE, c.now, NAME)
end

-- save_positions moves each sender over his own messages if he had acknowledged all
-- before them; the others are entered among his own, which don't count as unread. Only
-- if the slowest member moved can there be something to trim.
local function save_positions(c, moved, own, slowest, ttl)
  local positions = {}
  for sender, id in pairs(moved) do
    positions[#positions + 1] = id
    positions[#positions + 1] = sender
  end
  if #positions > 0 then redis.call('ZADD', MEMBERS, unpack(positions)) end
  if slowest then trim_acked(c) end
  for sender, ids in pairs(own) do
    redis.call('ZADD', own_of(sender), unpack(ids))
    redis.call('PEXPIRE', own_of(sender), ttl)
  end
end

-- run_id names the server's run, which is another after each restart and each promotion
-- of a replica: the id of its replication. promoted tells that it followed another.
local run, promoted
local function run_id()
  if RUN ~= '*' then return RUN end
  if not run then
    local info = redis.call('INFO', 'replication')
    run = string.match(info, 'master_replid:(%w+)') or ''
    promoted = string.find(string.match(info, 'master_replid2:(%w+)') or '', '[^0]') and true
  end
  return run
end

-- note_run gives a chat another epoch if its last message was added in another run of the
-- server that may have had messages that this one has not, and whose ids it gives again:
-- it was promoted, or keeps no append-only file.
local function note_run(c)
  local now = run_id()
  if now == c.run then return end
  if c.run and (promoted or not string.find(redis.call('INFO', 'persistence'), 'aof_enabled:1', 1, true)) then
    c.epoch = life_of(c.epoch) .. '.' .. string.sub(now, 1, 12)
  end
  redis.call('HSET', META, 'e', c.epoch, 'r', now)
end

-- append adds messages, each with its sender, text, and whether to push it, and
-- publishes them on a channel. acked has each sender's position. The log's expiry is put
-- off once in half a margin, and for a new log.
local function append(c, messages, acked, channel)
  if #messages == 0 then return end
  note_run(c)
  local fresh, half, first = c.head > c.last, MARGIN / 2, c.last
  local before = math.floor(c.at / half)
  c.at, c.added = math.max(c.now, c.at), #messages
  local entries, moved, own, slowest, ttl = {}, {}, {}, false, c.at - c.now + AGE + MARGIN
  local prefix = c.at .. ' '
  for i, m in ipairs(messages) do
    c.last = c.last + 1
    entries[i] = prefix .. m.sender .. ' ' .. m.text
    if m.push then mark_due(c) end
    if acked[m.sender] == c.last - 1 then
      slowest = slowest or acked[m.sender] < c.head
      acked[m.sender], moved[m.sender] = c.last, c.last
    else
      local ids = own[m.sender] or {}
      own[m.sender] = ids
      ids[#ids + 1] = c.last
      ids[#ids + 1] = c.last
    end
  end
  redis.call('RPUSH', LOG, unpack(entries))
  if fresh or before ~= math.floor(c.at / half) then redis.call('PEXPIRE', LOG, ttl) end
  save_positions(c, moved, own, slowest, ttl)
  save(c)
  for i, entry in ipairs(entries) do redis.call('PUBLISH', channel, c.epoch .. ' ' .. int(first + i) .. ' ' .. entry) end
end
