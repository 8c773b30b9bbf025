-- The calls of a counter, "<number>:<least>:<most>:<start>:<end>:<idle>:<local>", times in ms or '' for none.
-- A record is the digest of the body, and "<number>,<what was added>". The script has CALLS, ms and record_ttl before it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- A counter is made anew: number, the rest of its record, time without an add after which it ends, or ''.
function CALLS.set(key, name, n, rest, idle)
  local known = read(key)
  if not use(name, known, idle) then return '3' end
  store(key, n .. ':' .. rest, idle)
  return '1,' .. (known and 0 or 1)
end

-- A counter is removed.
function CALLS.remove(key, name)
  forget(key, name)
  return '1'
end

-- A number is added: the number, '1' to stop at a bound, digest of the body or ''.
function CALLS.add(key, _, delta, saturate, digest, record)
  local old = record and read(record)
  if old and string.sub(old, 1, #digest) ~= digest then return '7' end
  if old then return '8,' .. string.sub(old, #digest + 1) end
  local text = read(key)
  if not text then return '9' end
  local n, rest, lo, hi, start, till, idle, near = string.match(text, '^(-?%d+)(:(-?%d+):(-?%d+):(%d*):(%d*):(%d*):(.*))$')
  if till ~= '' and ms >= tonumber(till) then return '6' end
  if start ~= '' and ms < tonumber(start) then return '5,' .. int(start - ms) end
  local to = n + delta
  local stays = math.max(tonumber(lo), math.min(tonumber(hi), to))
  if stays ~= to and saturate ~= '1' then return '4,' .. n .. ',' .. near end
  local answer = int(stays) .. ',' .. int(stays - n)
  if stays ~= tonumber(n) then store(key, int(stays) .. rest, idle) end
  if record then store(record, digest .. answer, record_ttl) end
  return '1,' .. answer
end
