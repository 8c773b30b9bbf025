-- The text of a job, and the entries of streams that hold it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines names
-- TAKES: int
-- GIVES: WAKE, parse, text_of, add, text_at, dated
local SEP = '\31' -- between the fields of a head
local FIELDS = { 'i', 't', 'k', 'u', 'g', 'w', 's', 'a', 'f', 'l', 'n', 'r' }

-- WAKE is an entry that is no job: the process that claims it looks what is due.
local WAKE = 'W\0'

-- parse reads the text of a job (entry.go): its kind, its head and, after a zero
-- byte, its payload. Kinds: P a plain job, R one with a report, both with nothing
-- but an id in the head; F and G the same with every field: id, type, key,
-- unique, group, guard, enqueued in ms or '' (then the entry's id tells),
-- attachments, failures and leases lost ('' for none), fence, and 1 if the job is named,
-- which has a record and a tombstone, else ''.
local function parse(text)
  local zero = string.find(text, '\0', 1, true)
  local kind, head = string.sub(text, 1, 1), string.sub(text, 2, zero - 1)
  local e = { report = kind == 'R' or kind == 'G', p = string.sub(text, zero + 1) }
  if kind == 'P' or kind == 'R' then
    for n = 2, #FIELDS do e[FIELDS[n]] = '' end
    e.i, e.f, e.l, e.n = head, 0, 0, '0'
    return e
  end
  local n = 0
  for value in string.gmatch(head .. SEP, '(.-)' .. SEP) do
    n = n + 1
    e[FIELDS[n]] = value
  end
  e.f, e.l = tonumber(e.f) or 0, tonumber(e.l) or 0
  return e
end

local function text_of(e)
  local failures, lost = e.f > 0 and int(e.f) or '', e.l > 0 and int(e.l) or ''
  return (e.report and 'G' or 'F') .. table.concat({ e.i, e.t, e.k, e.u, e.g, e.w, e.s, e.a, failures, lost, e.n, e.r }, SEP)
    .. '\0' .. e.p
end

local function add(stream, text)
  return redis.call('XADD', stream, '*', 'e', text)
end

local function text_at(stream, eid)
  local found = redis.call('XRANGE', stream, eid, eid, 'COUNT', 1)
  return found[1] and found[1][2][2]
end

-- dated gives an entry that leaves its first place the time of its enqueueing.
local function dated(e, eid)
  if e.s == '' then e.s = string.match(eid, '^%d+') end
  return e
end
