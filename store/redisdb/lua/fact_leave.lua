-- Facts (store/facts) on their way to the lane of another slot.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: P
-- GIVES: leave_fact

-- leave_fact leaves a fact for the relay. data is JSON, at when it happened in ms, or '' for the time of its move. Without a
-- type it says that the event with the key may be over.
local function leave_fact(typ, key, at, data)
  redis.call('XADD', P .. 'facts:out', '*', 't', typ, 'k', key, 'a', at, 'd', data)
end
