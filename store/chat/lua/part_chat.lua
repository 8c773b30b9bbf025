-- One chat: its keys, its limits, and the part of its log that readers see. The scripts
-- that include it take their own arguments after these: unpack(ARGV, OWN).
-- KEYS: 1 meta (string), 2 due (zset) of the bucket
-- ARGV: 1 most messages kept, 2 most bytes of their texts and data, 3 most age in ms, 4 run
--       of the server: '*' for the server that runs the script (see part_append.lua), or a
--       name
-- RETURNS: nothing; it only defines functions
-- meta is "<epoch> <last id> <first id that readers see> <time of the last message in ms>
-- <made at in ms> <message up to which pushes are done, while some are due> <run of the
-- server that has the last message> <epoch before this run> <last id that this run
-- found> <bytes of the log's texts and data>", with '-' for a missing value. If the bytes are
-- missing, the next message counts them.
local call, match, max = redis.call, string.match, math.max
local MOST, BYTES, AGE, RUN = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local OWN = 5 -- where a script's own arguments begin
local META, DUE, BUCKET, NAME, LOG, MEMBERS
local MARGIN = 1000 -- ms by which keys outlive their last message, because reads compare times

-- turn_to selects the chat on which all functions below work. The script begins with the
-- chat of the first two keys.
local function turn_to(meta, due)
  META, DUE = meta, due
  BUCKET, NAME = match(META, '^(ff:{chat:%d+}:)meta:(.+)$')
  LOG, MEMBERS = BUCKET .. 'log:' .. NAME, BUCKET .. 'members:' .. NAME
end
turn_to(KEYS[1], KEYS[2])
local JOINS = BUCKET .. 'joins:' .. NAME -- only of the first chat

-- int is a whole number as text, cached because the same few numbers are needed often.
local texts, format = {}, string.format
local function int(n)
  local text = texts[n]
  if not text then
    text = format('%d', n)
    texts[n] = text
  end
  return text
end

local function own_of(user) return BUCKET .. 'own:' .. NAME .. '/' .. user end

local function sent_at(c, id)
  return tonumber(match(call('LINDEX', LOG, id - c.head), '^%d+'))
end

-- first_young finds the first message from c.first on that is not too old. Times never
-- decrease, so it can bisect.
local function first_young(c)
  local cut = c.now - AGE
  if c.made > cut or c.first > c.last or sent_at(c, c.first) > cut then return c.first end
  if c.at <= cut then return c.last + 1 end
  local old, new = c.first, c.last
  for _ = 1, 53 do
    if new - old <= 1 then break end
    local middle = math.floor((old + new) / 2)
    if sent_at(c, middle) > cut then new = middle else old = middle end
  end
  return new
end

-- now_ms is the server's time, the same for the whole script.
local now
local function now_ms()
  if not now then
    local time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return now
end

-- life_of is an epoch without the run of the server, which is the same from the making of
-- a chat to its end.
local function life_of(epoch) return match(epoch, '^[^.]+') end

-- weigh counts the bytes of messages' texts and data.
local function weigh(entries)
  local bytes = 0
  for _, entry in ipairs(entries) do bytes = bytes + #entry + 1 - match(entry, '^%d+ %S+ ()') end
  return bytes
end

-- meta reads the chat's meta, unless it is given; nil if there is no chat.
local FORM = '^(%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) ?(%S*) ?(%d*) ?(%d*)$' -- the last three may be missing
local function meta(text)
  text = text or call('GET', META)
  if not text then return nil end
  local epoch, last, first, at, made, pushed, run, was, since, bytes = match(text, FORM)
  return { epoch = epoch, last = 0 + last, first = 0 + first, at = 0 + at, made = 0 + made, pushed = tonumber(pushed), run = run,
    was = was ~= '' and was or '-', since = tonumber(since) or 0, bytes = tonumber(bytes), now = now_ms(), head = false }
end

-- see computes which messages of a log of the given length readers see: the log has every
-- id from head to last, and readers see the messages from first on.
local function see(c, length)
  c.head = c.last + 1 - length
  if length == 0 then c.bytes = 0 end
  c.first = max(c.first, c.head, c.last + 1 - MOST)
  c.first = first_young(c)
end

-- load reads the chat; nil if there is none.
local function load()
  local c = meta()
  if c then see(c, call('LLEN', LOG)) end
  return c
end

-- unread counts the messages kept above a position, without the user's own.
local function unread(c, user, acked)
  local from = max(tonumber(acked), c.first - 1)
  return c.last - from - call('ZCOUNT', own_of(user), '(' .. int(from), '+inf')
end

-- join_of is a member's entry among the joins: the stamp that the member's index has, and
-- the stamp of the join, which is lower if another join at the same time raised the first.
local function join_of(user)
  local found = call('ZRANGEBYLEX', JOINS, '[' .. user .. ' ', '(' .. user .. '!', 'LIMIT', 0, 1)[1]
  if not found then return nil end
  local stamp, made = match(found, '^%S+ (%d+) ?(%d*)$')
  return { entry = found, stamp = stamp, made = made ~= '' and made or stamp }
end
