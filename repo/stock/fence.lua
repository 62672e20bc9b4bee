-- fence
-- Compare fences. Every number stays the string of digits that Redis stores. A Lua number is a double: from 2^53 on it
-- is rounded, and from 1e14 on it prints as 1e+14.
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end

-- stale reports whether a holder with that fence, "0" for none, comes after one with the fence that was seen.
local function stale(fence, seen)
  return fence ~= '0' and less(fence, seen)
end

