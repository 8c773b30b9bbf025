-- What a session, or a blocking read, leaves: it goes back to where it is claimed.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- TAKES: STREAM, READY, GONE, READER, WAKE, int, parse, add, text_at, dated, put_stream,
--        front, disown, bury
-- GIVES: LETTERS, holds, give_back, empty_session, put_back_unclaimed
local LETTERS = { 'r', 'm', 'f', 'a' } -- of the streams

-- holds reports whether a session has anything pending. What its process believes may be
-- older than a claim that is under way.
local function holds(session)
  for _, letter in ipairs(LETTERS) do
    if redis.call('XPENDING', STREAM[letter], 'g', '-', '+', 1, session)[1] then return true end
  end
  return false
end

-- give_back puts an entry that was delivered to a session back, counted as a lease
-- that was lost or not. A wake-up that a dead connection was given is there for the next
-- reader; one that nobody reads stays put.
local function give_back(letter, eid, session, counted, o)
  local text = text_at(STREAM[letter], eid)
  disown(letter, eid)
  if not text or text == WAKE then
    if session == READER then add(READY, WAKE) end
    return
  end
  local e = dated(parse(text), eid)
  -- the fence that the session's claim had
  if session ~= READER then e.n = int(math.max(tonumber(string.match(session, '%d+$')), tonumber(e.n) + 1)) end
  if counted then
    e.l = e.l + 1
    if e.l >= o.most then
      return bury(e, { reason = 'lease_lost', err = 'its lease ended ' .. int(e.l) .. ' times', label = 'failed' }, o.retention)
    end
  end
  put_stream(e, front(e))
end

-- empty_session puts back at most `most` of what a session that is over held; with
-- nothing left its consumer goes. It returns how many were put back and whether all are.
local function empty_session(session, counted, most, o)
  local back = 0
  for _, letter in ipairs(LETTERS) do
    for _, p in ipairs(redis.call('XPENDING', STREAM[letter], 'g', '-', '+', most - back, session)) do
      give_back(letter, p[1], session, counted, o)
      back = back + 1
    end
  end
  if holds(session) then return back, false end
  for _, letter in ipairs(LETTERS) do redis.call('XGROUP', 'DELCONSUMER', STREAM[letter], 'g', session) end
  redis.call('ZREM', GONE, session)
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
