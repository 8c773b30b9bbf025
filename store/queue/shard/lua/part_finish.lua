-- Records what became of a session's jobs and claims the next ones.
-- KEYS: none
-- ARGV: 1 and on: those of the including script
-- RETURNS: nothing; it only defines functions
-- TAKES: OWNERS, NEVER, P, STREAM, begin_call, known, finish_call, renew, dated, parse, text_at, count, report, touch, set_fields, fail, close, move, save
-- GIVES: finish_jobs

-- finish_jobs has `own` arguments of the script before those of the jobs. It calls tell, if there is one, when all results are
-- recorded, with the call, the answers, and the place of the arguments behind those of the jobs. It returns the answer.
local function finish_jobs(own, tell)
  local call = begin_call()
  local first = call.args + 1
  local ndone, nother, nmarked, nunmark = tonumber(ARGV[first + 5]), tonumber(ARGV[first + 6]), tonumber(ARGV[first + 7]), tonumber(ARGV[first + 8])
  call.renewed = ndone + nother + nmarked > 0
  if not call.renewed then redis.call('DEL', NEVER) end -- a script whose first write frees memory is not refused by a full Redis
  -- A repeat renews as well: its process takes it for a renewal.
  local alive = call.renewed and renew(call.session, call.ms, call.lease) or not call.renewed and redis.call('ZSCORE', OWNERS, call.session)
  local repeated = known(call, alive)
  if repeated then return repeated end
  local group_ttl, report_ttl = tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])
  local answers, limits = {}, { retention = tonumber(ARGV[first]), attempts = tonumber(ARGV[first + 3]), age = tonumber(ARGV[first + 4]), ms = call.ms }

  local function finish(o)
    local letter, eid = string.sub(o.place, 1, 1), string.sub(o.place, 2)
    local e = dated(parse(o.head), eid)
    if redis.call('XACK', STREAM[letter], 'g', eid) == 0 then return 0 end
    if o.payload ~= '' then
      e.p = string.sub(o.payload, 2)
    elseif o.outcome ~= 'done' then
      e.p = parse(text_at(STREAM[letter], eid)).p
    end
    redis.call('XDEL', STREAM[letter], eid)
    e.n = o.fence
    for name, n in pairs(o.counts == '' and {} or cjson.decode(o.counts)) do count(e.g, name, n) end
    if o.report ~= '' then report(e.i, o.report) end
    if o.outcome == 'done' then
      if e.r ~= '1' and o.park ~= '' then
        local key = P .. 'notes:' .. (e.g == '' and e.i or e.g)
        redis.call('APPEND', key, o.park)
        touch(key, limits.retention, true)
      end
      for line in string.gmatch(o.class, '[^\n]+') do fail(e, line) end
      close(e, 'D' .. o.park, o.label, limits.retention) -- part_end.lua
      return 1
    end
    local status, parked = move(o, e, limits) -- part_moves.lua
    call.parked = parked or call.parked
    return status
  end

  -- Jobs that hold nothing are acknowledged together. A session that is still an owner
  -- has all of them pending: only what removes a session takes entries from it.
  local function finish_plain(at, n)
    local eids = { m = {}, r = {}, f = {}, a = {} }
    for i = at, at + 3 * n - 1, 3 do
      table.insert(eids[string.sub(ARGV[i], 1, 1)], string.sub(ARGV[i], 2))
      if ARGV[i + 2] ~= '' then report(ARGV[i + 1], ARGV[i + 2]) end
      answers[#answers + 1] = '1'
    end
    for letter, list in pairs(eids) do
      if list[1] then
        redis.call('XACK', STREAM[letter], 'g', unpack(list))
        redis.call('XDEL', STREAM[letter], unpack(list))
      end
    end
  end

  -- mark_parts notes the parts of jobs that have ended, from ARGV[from] on; then the
  -- marks go of jobs that are over. It returns where the arguments go on.
  local function mark_parts(from)
    for _ = 1, nmarked do
      local id, n = ARGV[from], tonumber(ARGV[from + 2])
      if ARGV[from + 1] ~= '' then report(id, ARGV[from + 1]) end
      set_fields(P .. 'marks:' .. id, ARGV, from + 3, from + 2 + n)
      touch(P .. 'marks:' .. id, math.max(group_ttl, limits.age), true)
      from = from + 3 + n
    end
    for i = from, from + nunmark - 1 do redis.call('DEL', P .. 'marks:' .. ARGV[i]) end
    return from + nunmark
  end

  if alive then
    local others = first + own + 3 * ndone
    local rest = mark_parts(others + 13 * nother)
    finish_plain(first + own, ndone)
    for i = others, others + 13 * nother - 1, 13 do
      answers[#answers + 1] = tostring(finish({ place = ARGV[i], outcome = ARGV[i + 1], head = ARGV[i + 2], fence = ARGV[i + 3], label = ARGV[i + 4],
        counts = ARGV[i + 5], delay = tonumber(ARGV[i + 6]), payload = ARGV[i + 7], park = ARGV[i + 8], reason = ARGV[i + 9],
        err = ARGV[i + 10], report = ARGV[i + 11], class = ARGV[i + 12] }))
    end
    if tell then tell(call, answers, rest) end
    save(group_ttl, report_ttl)
  end
  return finish_call(call, alive, alive and table.concat(answers) or string.rep('0', ndone + nother))
end
