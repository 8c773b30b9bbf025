-- The callers of a script that answers a crowd: one after the other, as if each had
-- a script of his own, but what they ask for is read and written at once. Each has
-- four arguments, of which the third is the digest of his request's body, '' without
-- an idempotency record. It needs lua/part_sale.lua before it.
-- KEYS: 6.. the idempotency record of each caller who wants one
-- ARGV: those of the including script, then four of each caller
-- RETURNS: nothing; it only defines functions
local ARGS, RECORDS, DIGEST = 4, 6, 32 -- a digest has 32 bytes
local once, made_records = {}, {}

local function read_records()
  if not KEYS[RECORDS] then return end
  for i, text in ipairs(redis.call('MGET', unpack(KEYS, RECORDS))) do once[KEYS[RECORDS - 1 + i]] = text end
end

-- recorded gives what stands in a caller's record behind the digest, nil without one;
-- then 3 if that is of another body.
local function recorded(key, digest)
  local text = once[key]
  if not text then return nil end
  if string.sub(text, 1, #digest) ~= digest then return nil, 3 end
  return string.sub(text, #digest + 1)
end

local function record(key, text, ttl)
  once[key], made_records[key] = text, ttl
end

-- each_caller gives {1 somebody got what he asked for, or 0, head, each answer}. answer is
-- told where the caller's arguments are, which caller he is, and his record's key. Records
-- are written last: a full Redis would refuse a script that begins with one.
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
