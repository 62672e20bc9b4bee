-- fence
-- Compare fences as the strings of digits that Redis stores. A Lua number is a double, which is rounded from 2^53 on
-- and printed as 1e+14 from 1e14 on.
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end

-- stale reports whether fence is smaller than seen, the largest fence so far. A fence of "0" means none.
local function stale(fence, seen)
  return fence ~= '0' and less(fence, seen)
end

