-- Which run of the server this is, and whether a sale may be used in it. Another run, of the
-- same server or of one that took its place, may lack writes that were acknowledged. The
-- script asks its own server, because a client's knowledge of it may be out of date when the
-- script arrives. The replication id would not do: it changes also when a first replica
-- attaches or the last one was away for long, and every sale would be read from the record.
-- A run that becomes master again after another is noticed, because sweepers have stored the
-- other run in the sales meanwhile.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- run_id names the run: run itself, or with '*' the run of this server.
local function run_id(run)
  if run ~= '*' then return run end
  local text = redis.call('INFO', 'server')
  local _, before = string.find(text, 'run_id:', 1, true) -- a pattern would be tried at each letter
  return before and string.match(text, '^%w+', before + 1) or ''
end

-- unusable says why the partition cannot be worked on: 4 there is no such sale, 5 it is being
-- read from the record, 6 it was made in another run of the server. nil: it can. A run of ''
-- is not compared. 14 the sale has another number of partitions than the caller knows, because it was
-- deleted and made anew; known is not compared if it is nil, or 0.
local function unusable(version, closed, made_in, run, partitions, known)
  if not version then return 4 end
  if closed then return 5 end
  if run ~= '' and made_in ~= run_id(run) then return 6 end
  if known and known ~= '0' and partitions ~= known then return 14 end
end
