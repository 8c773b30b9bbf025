-- Conditions of a change (If-Match, If-None-Match), as api.Match writes them.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines a function

-- matches reports whether what is there, of this version (false: there is nothing), is what the
-- condition asks for: '' any or none, '*' any, 'absent' none, ',3,7,' one of these
-- versions, '!,3,7,' none of these.
local function matches(condition, version)
  if condition == '' then return true end
  if condition == '*' or condition == 'absent' then return (condition == '*') == (version ~= false) end
  local listed = version and string.find(condition, ',' .. version .. ',', 1, true) ~= nil
  return listed == (string.sub(condition, 1, 1) ~= '!')
end
