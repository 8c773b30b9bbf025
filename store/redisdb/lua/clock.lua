-- Redis' clock, and numbers as text: scripts of every package may include it.
-- KEYS: none
-- ARGV: none
-- RETURNS: nothing; it only defines functions
local function now_us()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- Numbers beyond 14 digits would be printed with an exponent by tostring.
local function int(n)
  return string.format('%d', n)
end
