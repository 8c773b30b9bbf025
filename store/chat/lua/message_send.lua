-- Adds the messages of a crowd to their chats, one after the other, with the effect of one
-- script for each message. The keys of a chat are read and written once. A chat whose keys
-- are damaged fails only for its own senders.
-- KEYS: 1.. of each chat in turn meta (string), due (zset) of the bucket, and the record
--       (string) of each message with an idempotency key; at last the record (string)
--       of this call
-- ARGV: 1 lifetime of this call's record in ms, 2 of a message's, 3 prefix of the
--       channels of messages, 4 1 if facts tell of messages, 5 how many chats, 6.. of each
--       chat how many messages, how many have a record, 1 if they should be pushed, their senders, their texts, and,
--       if some have a record, the digests of their bodies ('' without); all after those
--       of part_chat.lua
-- RETURNS: a line for each message: "0" no such chat, "1 <id> <time in ms>" sent,
--          "2 <id> <time in ms>" sent by an earlier request, "3" the key was used with
--          another body, "4" the sender is no member, "-1 <what>" an error
-- @include lua/part_chat.lua
-- @include lua/part_trim.lua
-- @include lua/part_tell.lua
-- @include lua/part_append.lua
-- @include lua/part_facts.lua
local CALL = KEYS[#KEYS]
local call_ttl, record_ttl, channels, tells, chats = unpack(ARGV, OWN, OWN + 4)

-- A client that lost the answer sends the same call again.
local before = call('GET', CALL)
if before then return before end

-- replay answers from a record; nil if the record is of an earlier chat with the same id.
local function replay(c, record, digest)
  local epoch, id, at, body = match(call('GET', record) or '', '^(%S+) (%d+) (%d+) .-(%S+)$')
  if epoch ~= life_of(c.epoch) then return nil end
  return body == digest and '2 ' .. id .. ' ' .. at or '3'
end

-- remember stores the outcome of a message, or returns the outcome that was stored before.
local function remember(c, record, sent, digest)
  local value = life_of(c.epoch) .. ' ' .. sent .. ' ' .. digest
  if call('SET', record, value, 'PX', record_ttl, 'NX') then return nil end
  local earlier = replay(c, record, digest)
  if not earlier then call('SET', record, value, 'PX', record_ttl) end
  return earlier
end

local answers, sent = {}, false

-- send answers a chat's n messages, whose senders begin after from and records after key.
local function send(text, n, records, push, from, key)
  local c, bytes, entries, senders, acked = meta(text), 0, nil, nil, nil
  local positions = c and call('ZMSCORE', MEMBERS, unpack(ARGV, from + 1, from + n))
  local at = c and int(max(c.now, c.at))
  if c and records > 0 then call('LLEN', LOG) end -- a damaged log fails before anything is stored
  for i = from + 1, from + n do
    local sender, digest, answer, record = ARGV[i], records > 0 and ARGV[i + n + n] or '', '0', nil
    if digest ~= '' then
      key = key + 1
      record = KEYS[key]
    end
    if c and not positions[i - from] then
      answer = record and replay(c, record, digest) or '4'
    elseif c then
      local stamp = int(c.last + 1 + (entries and #entries or 0)) .. ' ' .. at
      answer = record and remember(c, record, stamp, digest)
      if not answer then
        answer, acked = '1 ' .. stamp, acked or tonumber(positions[i - from])
        local entry = at .. ' ' .. sender .. ' ' .. ARGV[i + n]
        bytes = bytes + #ARGV[i + n]
        if entries then
          entries[#entries + 1], senders[#senders + 1] = entry, sender
        else
          entries, senders = { entry }, { sender }
        end
      end
    end
    answers[#answers + 1] = answer
  end
  if not entries then return end
  append(c, entries, senders, bytes, acked, channels .. NAME, push)
  if tells == '1' then leave_messages(c, senders) end
  sent = true
end

-- each_chat calls f for each chat, with the index of its first key, the index of its first
-- argument, the number of its messages, how many of them have a record, and the chat's number.
local function each_chat(f)
  local key, from = 1, OWN + 5
  for i = 1, tonumber(chats) do
    local n, records = tonumber(ARGV[from]), tonumber(ARGV[from + 1])
    f(key, from, n, records, i)
    key, from = key + 2 + records, from + 3 + n * (records > 0 and 3 or 2)
  end
end

local metas = {}
each_chat(function(key, _, _, _, i) metas[i] = KEYS[key] end)
metas = call('MGET', unpack(metas)) -- false also for a damaged meta, which is then read alone
unwritten = {}
each_chat(function(key, from, n, records, i)
  local done = #answers
  turn_to(KEYS[key], KEYS[key + 1])
  local good, why = pcall(send, metas[i], n, records, ARGV[from + 2] == '1', from + 2, key + 1)
  for k = done + 1, good and 0 or done + n do
    answers[k] = '-1 ' .. string.gsub(type(why) == 'table' and why.err or tostring(why), '\n', ' ')
  end
end)
if #unwritten > 0 then call('MSET', unpack(unwritten)) end
local reply = table.concat(answers, '\n')
if sent then call('SET', CALL, reply, 'PX', call_ttl) end
return reply
