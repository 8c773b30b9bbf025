-- The records of groups: counts, each "name=number", a blank between them. Groups of one
-- part of a second share a small hash, under the rest of their names; groupKey in
-- keys.go has the same rule.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, int, touch
-- GIVES: groups, count, count_reason, fail, save_groups

-- SHORT are letters for the names of which the queue "notifications" has millions;
-- shortNames in reports.go of the queue has the same.
local SHORT = { created = 'c', delivered = 'd', expired = 'e', failed = 'f', retrying = 'r', unknown_outcome = 'u' }
local groups, failed = {}, {}

-- count adds to a count of a group, which the first call of a script reads; save_groups writes it.
local function count(g, name, n)
  if g == '' then return end
  local c = groups[g]
  if not c then
    c = { key = P .. 'group:' .. string.sub(g, 1, 6), field = string.sub(g, 7), counts = {} }
    for other, many in string.gmatch(redis.call('HGET', c.key, c.field) or '', '([^ =]+)=(%-?%d+)') do c.counts[other] = tonumber(many) end
    groups[g] = c
  end
  name = SHORT[name] or name
  c.counts[name] = (c.counts[name] or 0) + n
end

-- count_reason counts those of a group that failed by their reason (events.FailedBy).
local function count_reason(g, label, reason, n)
  if label == 'failed' then count(g, 'failed!' .. string.gsub(string.sub(reason, 1, 40), '[^%w_]', '_'), n) end
end

-- fail keeps what failed of a job or of its group, as one of the first 200; save_groups gives them their lifetime.
local function fail(e, text)
  local key = P .. 'failed:' .. (e.g == '' and e.i or e.g)
  failed[key] = redis.call('LLEN', key) >= 200 or redis.call('RPUSH', key, text)
end

local function save_groups(ttl)
  for key in pairs(failed) do touch(key, ttl, true) end
  for _, c in pairs(groups) do
    local text = {}
    for name, n in pairs(c.counts) do text[#text + 1] = name .. '=' .. int(n) end
    redis.call('HSET', c.key, c.field, table.concat(text, ' '))
    touch(c.key, ttl)
  end
end
