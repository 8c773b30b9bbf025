-- Facts (store/facts) in the lane of this slot.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P, int
-- GIVES: append_fact, save_facts
local lane -- its last fact: time in ms and number

-- append_fact adds a fact to the lane of this slot. The id of a fact is its time, which never falls, and its number in
-- the lane, which rises by one. data is JSON, at when it happened in ms, or '' for now.
local function append_fact(ms, typ, key, at, data)
  if not lane then
    local last = redis.call('GET', P .. 'facts:last') or (redis.call('XREVRANGE', P .. 'facts', '+', '-', 'COUNT', 1)[1] or {})[1] or '0-0'
    local time, number = string.match(last, '^(%d+)-(%d+)$')
    lane = { ms = tonumber(time), n = tonumber(number) }
  end
  if at == '' and lane.ms > ms then at = int(ms) end -- a clock was ahead before: the id does not tell the time
  lane.ms, lane.n = math.max(lane.ms, ms), lane.n + 1
  redis.call('XADD', P .. 'facts', int(lane.ms) .. '-' .. int(lane.n), 't', typ, 'k', key, 'a', at, 'd', data)
end

-- save_facts notes the last fact, and wakes the readers that wait. It must come at the end of a script.
local function save_facts()
  if not lane then return end
  redis.call('SET', P .. 'facts:last', int(lane.ms) .. '-' .. int(lane.n))
  redis.pcall('PUBLISH', 'ff:facts', '')
end
