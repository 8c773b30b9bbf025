-- Dead letters that go, and how many there are of each reason and class.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, STATS, DEAD, DEADIDS
-- GIVES: DEADN, REST, CLASS, group_of, count_dead, dead_of, forget_dead, trim_dead
-- A new dead letter is not counted at once. Counting goes on from the letter that was counted last
-- (`deadat` among the shard's counters), when somebody asks and in each look. So the scripts that
-- bury jobs do no more for it, and letters of processes that count nothing are counted as well.
local DEADN = P .. 'deadn'
local GROUPS, REST = 1000, '' -- groups that are told apart, and the one of all others
local CLASS = 32 -- of an entry's values; an entry of an earlier version has none
local RECOUNT = 60000

local function number(name)
  return tonumber(redis.call('HGET', STATS, name) or 0)
end

-- tally changes the count of a group. The rest has letters of groups for which there was no room,
-- so a group that is not there has all of its letters in the rest.
local function tally(group, n)
  if redis.call('HEXISTS', DEADN, group) == 0 and (n < 0 or redis.call('HLEN', DEADN) >= GROUPS) then group = REST end
  if redis.call('HINCRBY', DEADN, group, n) <= 0 then redis.call('HDEL', DEADN, group) end
  redis.call('HINCRBY', STATS, 'deadn', n)
end

local function group_of(v)
  return v[20] .. '\31' .. (v[CLASS] or '')
end

-- count_dead counts letters that are not counted yet, at most `step`, and tells whether some may be
-- left. Numbers that do not add up then are those of a process of an earlier version, which took
-- letters away: all are counted again, at most once in RECOUNT ms.
local function count_dead(ms, step)
  local at, sums = redis.call('HGET', STATS, 'deadat') or '0-0', {}
  local new = redis.call('XRANGE', DEAD, '(' .. at, '+', 'COUNT', step)
  for _, one in ipairs(new) do
    local group = group_of(one[2])
    sums[group] = (sums[group] or 0) + 1
  end
  for group, n in pairs(sums) do tally(group, n) end
  if new[1] then redis.call('HSET', STATS, 'deadat', new[#new][1]) end
  if #new == step then return true end
  if number('deadn') == redis.call('XLEN', DEAD) or ms - number('recounted') < RECOUNT then return false end
  redis.call('DEL', DEADN)
  redis.call('HSET', STATS, 'deadn', 0, 'deadat', '0-0', 'recounted', string.format('%.0f', ms))
  return true
end

-- counted tells whether the letter with an id was counted.
local function counted(eid)
  local ms, n = string.match(eid, '(%d+)-(%d+)')
  local at_ms, at_n = string.match(redis.call('HGET', STATS, 'deadat') or '0-0', '(%d+)-(%d+)')
  ms, at_ms = tonumber(ms), tonumber(at_ms)
  return ms < at_ms or ms == at_ms and tonumber(n) <= tonumber(at_n)
end

-- dead_of finds a letter by its job and its own id; '': the job's last. It gives the letter's id, its
-- values, and whether it is the job's last. A job that was enqueued again and died again has several.
local function dead_of(job, eid)
  local last = redis.call('HGET', DEADIDS, job)
  if eid == '' then eid = last end
  local letter = eid and redis.call('XRANGE', DEAD, eid, eid, 'COUNT', 1)[1]
  if letter then return eid, letter[2], eid == last end
  if eid and eid == last then redis.call('HDEL', DEADIDS, job) end
end

-- forget_dead removes a letter, of which v are the values.
local function forget_dead(eid, v)
  redis.call('XDEL', DEAD, eid)
  if redis.call('HGET', DEADIDS, v[2]) == eid then redis.call('HDEL', DEADIDS, v[2]) end
  if counted(eid) then tally(group_of(v), -1) end
end

-- trim_dead drops old dead letters, and tells whether there may be more to drop.
local function trim_dead(ms, dead_ttl, dead_max, step)
  local over, gone = redis.call('XLEN', DEAD) - dead_max, 0
  for _, one in ipairs(redis.call('XRANGE', DEAD, '-', '+', 'COUNT', over > 0 and step or 2)) do
    local born = tonumber(string.match(one[1], '^%d+'))
    if gone >= over and ms - born < dead_ttl then break end
    forget_dead(one[1], one[2])
    if one[2][16] ~= '' then redis.call('DEL', P .. 'attach:' .. one[2][2]) end
    gone = gone + 1
  end
  if gone > 0 then redis.call('HINCRBY', STATS, 'dropped', gone) end
  return gone > 1
end
