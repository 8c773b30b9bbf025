-- One chat: its keys, its limits, and what readers see of its log. The scripts
-- that include it take their own arguments after these: unpack(ARGV, OWN).
-- KEYS: 1 meta (hash), 2 due (zset) of the bucket
-- ARGV: 1 most messages kept, 2 most age in ms, 3 run of the server: '*' for the one
--       that is asked (see part_append.lua), or a name
-- RETURNS: nothing; it only defines functions
-- Fields of meta: e epoch, l last id, f first id that readers see, c made at and
-- t last message at in ms, p the message up to which pushes are done while some
-- are due, r the run of the server that has the last message.
local MOST, AGE, RUN = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local OWN = 4 -- where a script's own arguments begin
local META, DUE, BUCKET, NAME, LOG, MEMBERS, JOINS
local POPPED = 32 -- messages over a limit that one call removes
local MARGIN = 1000 -- ms that keys outlive what is in them: reads compare times

-- turn_to makes a chat the one that everything below is about: at first, that of the
-- first two keys.
local function turn_to(meta, due)
  META, DUE = meta, due
  BUCKET, NAME = string.match(META, '^(ff:{chat:%d+}:)meta:(.+)$')
  LOG, MEMBERS, JOINS = BUCKET .. 'log:' .. NAME, BUCKET .. 'members:' .. NAME, BUCKET .. 'joins:' .. NAME
end
turn_to(KEYS[1], KEYS[2])

local function int(n) return string.format('%.0f', n) end

local function own_of(user) return BUCKET .. 'own:' .. NAME .. '/' .. user end

local function sent_at(c, id)
  return tonumber(string.match(redis.call('LINDEX', LOG, id - c.head), '^%d+'))
end

-- first_young finds the first message from c.first on that is not too old. Times
-- never decrease, so it bisects.
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

-- now_ms is the server's time, one for all of a script.
local now
local function now_ms()
  if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return now
end

-- life_of is an epoch without the run of the server: one from the making of a chat to
-- its end.
local function life_of(epoch) return string.match(epoch, '^[^.]+') end

-- load reads the chat, nil when there is none. The log has every id from head
-- to last; what readers see begins at first.
local function load()
  local m = redis.call('HMGET', META, 'e', 'l', 'f', 't', 'p', 'c', 'r')
  if not m[1] then return nil end
  local c = { epoch = m[1], run = m[7], last = tonumber(m[2]), at = tonumber(m[4]), pushed = m[5] and tonumber(m[5]), made = tonumber(m[6]),
    now = now_ms() }
  c.head = c.last + 1 - redis.call('LLEN', LOG)
  c.first = math.max(tonumber(m[3]), c.head, c.last + 1 - MOST)
  c.first = first_young(c)
  return c
end

-- unread counts what is kept above a position and not the user's own.
local function unread(c, user, acked)
  local from = math.max(tonumber(acked), c.first - 1)
  return c.last - from - redis.call('ZCOUNT', own_of(user), '(' .. int(from), '+inf')
end

-- join_of is a member's entry among the joins: the stamp that his index has, and
-- that of his join where another join at the same time raised it.
local function join_of(user)
  local found = redis.call('ZRANGEBYLEX', JOINS, '[' .. user .. ' ', '(' .. user .. '!', 'LIMIT', 0, 1)[1]
  if not found then return nil end
  local stamp, made = string.match(found, '^%S+ (%d+) ?(%d*)$')
  return { entry = found, stamp = stamp, made = made ~= '' and made or stamp }
end
