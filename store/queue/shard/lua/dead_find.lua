-- Looks at dead letters, newest first, for those of a reason, a type and an app.
-- KEYS: 1 the shard's records, 2 a key that never exists
-- ARGV: 1 newest id to look at, as XREVRANGE takes it, 2 oldest, 3 most letters to look at,
--       4 most to find, 5 reason or '', 6 type or '', 7 app, its topic or '', 8 1 answer whole
--       letters or 0 job ids
-- RETURNS: {how many it found, the id of the last letter it looked at or '' if that was the oldest, what it
--          found, each letter as XREVRANGE does}
-- @include lua/part_shard.lua
-- @include lua/part_dead.lua
local look, most, reason, kind, app = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]

local function fits(v)
  if reason ~= '' and v[20] ~= reason then return false end
  if kind == '' and app == '' then return true end
  local its_kind, its_app = string.match(v[CLASS] or '', '^(.-)\31(.*)$')
  if kind ~= '' and kind ~= its_kind then return false end
  return app == '' or app == its_app or app == string.match(its_app or '', '^[^/]*')
end

local found, last = {}, ''
local letters = redis.call('XREVRANGE', DEAD, ARGV[1], ARGV[2], 'COUNT', look)
for n, one in ipairs(letters) do
  if fits(one[2]) then found[#found + 1] = ARGV[8] == '1' and one or { one[1], one[2][2] } end
  if n == look or #found == most and n < #letters then
    last = one[1]
    break
  end
end
return { #found, last, found }
