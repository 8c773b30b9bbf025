-- Which run of the server this is, and whether a sale may be used in it. Another run, of the same server or of one that
-- took its place, may lack what was acknowledged. The server that runs a script
-- says so itself: what a client knows of it may be out of date on arrival.
-- The id of replication would not do: it is another also when a first replica comes or
-- the last has been away for long, and every sale would be read from the record. A run
-- that leads again is not missed, for sales are looked at while another leads.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
-- run_id names the run: run itself, or with '*' the one that is asked.
local function run_id(run)
  if run ~= '*' then return run end
  local text = redis.call('INFO', 'server')
  local _, before = string.find(text, 'run_id:', 1, true) -- a pattern would be tried at each letter
  return before and string.match(text, '^%w+', before + 1) or ''
end

-- unusable says why nobody may work here: 4 there is no such sale, 5 it is being
-- read from the record, 6 it was made in another run of the server. A run of ''
-- is never compared.
local function unusable(version, closed, made_in, run)
  if not version then return 4 end
  if closed then return 5 end
  if run ~= '' and made_in ~= run_id(run) then return 6 end
end
