-- The callers of a script that answers several: one after the other, as if each had a
-- script of its own, but reading and writing once for all. Each caller has four arguments;
-- the third is the digest of the request's body, '' without an idempotency record.
-- It needs lua/part_sale.lua before it.
-- KEYS: 6.. the idempotency record of each caller that wants one, behind a key that never exists if something is told
-- ARGV: those of the including script, then four of each caller
-- RETURNS: nothing; it only defines functions
-- TAKES: tells, what is told (see tell_of of lua/part_told.lua)
local ARGS, RECORDS, DIGEST = 4, tells == '' and 6 or 7, 32 -- a digest has 32 bytes
local once, made_records = {}, {}

local function read_records()
  if not KEYS[RECORDS] then return end
  for i, text in ipairs(redis.call('MGET', unpack(KEYS, RECORDS))) do once[KEYS[RECORDS - 1 + i]] = text end
end

-- recorded gives the text behind the digest in a caller's record, nil without a record. Its
-- second result is 3 if the record is of another body.
local function recorded(key, digest)
  local text = once[key]
  if not text then return nil end
  if string.sub(text, 1, #digest) ~= digest then return nil, 3 end
  return string.sub(text, #digest + 1)
end

local function record(key, text, ttl)
  once[key], made_records[key] = text, ttl
end

-- each_caller gives {1 a caller's request was carried out, or 0, head, each answer}. It calls
-- answer with the position of the caller's arguments, the caller's number, and the key of its
-- record. Records are written last: a Redis without memory refuses a script whose first write
-- is a SET.
local function each_caller(first, head, answer)
  local answers, key, n = { 0, head }, RECORDS - 1, 0
  for i = first, #ARGV, ARGS do
    local own
    if ARGV[i + 2] ~= '' then
      key = key + 1
      own = KEYS[key]
    end
    n = n + 1
    local a = answer(i, n, own)
    answers[n + 2] = a
    if a == 1 or a[1] <= 2 then answers[1] = 1 end
  end
  for key, ttl in pairs(made_records) do redis.call('SET', key, once[key], 'PX', ttl) end
  return answers
end
