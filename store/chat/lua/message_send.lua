-- Adds the messages of a crowd to their chats: one after the other, as if each had a
-- script of his own, but what they need is read and written once for each chat. A chat
-- whose keys are damaged fails for its own senders alone.
-- KEYS: 1.. of each chat in turn meta (hash), due (zset) of the bucket, and the record
--       (string) of each message with an idempotency key; at last the record (string)
--       of this call
-- ARGV: 1 lifetime of this call's record in ms, 2 of a message's, 3 prefix of the
--       channels of messages, 4 how many chats, 5.. of each chat how many messages, and
--       of each of them in turn the sender, the text, the digest of the body ('' without
--       a record) and 1 when it should be pushed; all after those of part_chat.lua
-- RETURNS: an answer to each message: {0 no such chat}, {1 sent, id, time in ms},
--          {2 sent by an earlier request, id, time in ms}, {3 the key was used with
--          another body}, {4 the sender is no member}, {-1 an error, what}; an id is text,
--          as cjson would round a large one
-- @include lua/part_chat.lua
-- @include lua/part_trim.lua
-- @include lua/part_append.lua
local CALL, SIZE = KEYS[#KEYS], 4
local call_ttl, record_ttl, channels, chats = unpack(ARGV, OWN, OWN + 3)

-- A client that lost the answer sends the same again.
local before = redis.call('GET', CALL)
if before then return cjson.decode(before) end

-- replay answers from a record, nil when it is of another life of the chat.
local function replay(c, m)
  local epoch, id, at, body = string.match(redis.call('GET', m.record) or '', '^(%S+) (%d+) (%d+) .-(%S+)$')
  if epoch ~= life_of(c.epoch) then return nil end
  if body ~= m.digest then return { 3 } end
  return { 2, id, tonumber(at) }
end

-- remember keeps what becomes of a message, or gives what became of it before.
local function remember(c, m, id, at)
  local record = life_of(c.epoch) .. ' ' .. int(id) .. ' ' .. at .. ' ' .. m.digest
  if redis.call('SET', m.record, record, 'PX', record_ttl, 'NX') then return nil end
  local earlier = replay(c, m)
  if not earlier then redis.call('SET', m.record, record, 'PX', record_ttl) end
  return earlier
end

-- positions are those of the senders, false of who is no member.
local function positions(messages)
  local senders, acked = {}, {}
  for i, m in ipairs(messages) do senders[i] = m.sender end
  for i, score in ipairs(redis.call('ZMSCORE', MEMBERS, unpack(senders))) do acked[senders[i]] = score and tonumber(score) end
  return acked
end

-- send gives the answers to a chat's messages.
local function send(messages)
  local c, answers, new = load(), {}, {}
  local acked = c and positions(messages)
  for i, m in ipairs(messages) do
    if not c then
      answers[i] = { 0 }
    elseif not acked[m.sender] then
      answers[i] = m.record and replay(c, m) or { 4 }
    else
      local id, at = c.last + #new + 1, math.max(c.now, c.at)
      answers[i] = m.record and remember(c, m, id, at)
      if not answers[i] then answers[i], new[#new + 1] = { 1, int(id), at }, m end
    end
  end
  if c then append(c, new, acked, channels .. NAME) end
  return answers
end

-- read_messages reads a chat's n messages and gives where the next chat's keys are.
local function read_messages(key, from, n)
  local messages = {}
  for i = 1, n do
    local m = { sender = ARGV[from], text = ARGV[from + 1], digest = ARGV[from + 2], push = ARGV[from + 3] == '1' }
    if m.digest ~= '' then
      m.record, key = KEYS[key], key + 1
    end
    messages[i], from = m, from + SIZE
  end
  return messages, key
end

local answers, key, from, sent = {}, 1, OWN + 4, false
for _ = 1, tonumber(chats) do
  local n = tonumber(ARGV[from])
  turn_to(KEYS[key], KEYS[key + 1])
  local messages, next_key = read_messages(key + 2, from + 1, n)
  local good, result = pcall(send, messages)
  for i = 1, n do
    local own = good and result[i] or { -1, type(result) == 'table' and result.err or tostring(result) }
    answers[#answers + 1] = own
    sent = sent or own[1] == 1
  end
  key, from = next_key, from + 1 + n * SIZE
end
if sent then redis.call('SET', CALL, cjson.encode(answers), 'PX', call_ttl) end
return answers
