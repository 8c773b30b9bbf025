-- What a life, or a blocking read, leaves: it goes back to where it is claimed.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions

-- give_back puts an entry that was delivered to a life back, counted as a lease
-- that was lost or not, and tells whether it had to be given up. A wake-up that a
-- dead connection was given is there for the next; one that nobody reads stays put.
local function give_back(letter, eid, life, counted, o)
  local e = entry_at(STREAM[letter], eid)
  disown(letter, eid)
  if not e then
    if life == READER then add(READY, WAKE) end
    return
  end
  if life ~= READER then e.n = fence_of(life, e.n) end
  if counted then
    e.l = e.l + 1
    if e.l >= o.most then
      return bury(e, { reason = 'lease_lost', err = 'its lease ended ' .. int(e.l) .. ' times', label = 'failed' }, o.retention)
    end
  end
  put_stream(e, front(e))
end

-- empty_life puts back at most `most` of what a gone life held; with nothing left
-- its consumer goes. It returns how many were put back and whether all are.
local function empty_life(life, counted, most, o)
  local back = 0
  for _, letter in ipairs({ 'r', 'm', 'a' }) do
    for _, p in ipairs(redis.call('XPENDING', STREAM[letter], 'g', '-', '+', most, life)) do
      give_back(letter, p[1], life, counted, o)
      back = back + 1
    end
  end
  if holds(life) then return back, false end
  for _, letter in ipairs({ 'r', 'm', 'a' }) do redis.call('XGROUP', 'DELCONSUMER', STREAM[letter], 'g', life) end
  redis.call('ZREM', GONE, life)
  return back, true
end

-- put_back_unclaimed gives others what a blocking read was given and its process
-- did not claim within `idle` ms; it returns how many entries blocking reads hold.
local function put_back_unclaimed(idle, most, o)
  local held = 0
  for _, letter in ipairs({ 'r', 'm' }) do
    for _, p in ipairs(redis.call('XPENDING', STREAM[letter], 'g', '-', '+', most, READER)) do
      if tonumber(p[3]) >= idle then
        give_back(letter, p[1], READER, false, o)
      else
        held = held + 1
      end
    end
  end
  return held
end
