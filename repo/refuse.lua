-- The first half of write.lua and deduct.lua: read the stock, refuse what must not be written, and say how to record.
-- KEYS[1] stock:{sku}   ARGV[1] epoch, "" for any   [2] strategy   [3] fence, "0" for none   [4] quantity sold
-- ARGV[7], of write.lua: what the fields of a segment begin with, such as "3."; "" for the whole stock
--
-- Every number stays the string of digits that Redis stores. A Lua number is a double: from 2^53 on it is rounded, and from
-- 1e14 on it prints as 1e+14.
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end

local part = ARGV[7] or ''
local s = redis.call('HMGET', KEYS[1], 'epoch', 'guard', part .. 'fence', part .. 'quantity', part .. 'version')
local epoch, guard, fence, quantity, version = s[1], s[2], s[3], s[4], s[5]

if not epoch then
  return {'unknown sku'}
end
if ARGV[1] ~= '' and ARGV[1] ~= epoch then
  return {'reset'}
end
if guard ~= '' and guard ~= ARGV[2] then
  return {'guarded', guard}
end
if not version then
  return {'changed'} -- there is no such segment in this epoch
end
if ARGV[3] ~= '0' and less(ARGV[3], fence) then
  return {'stale fence', fence}
end

-- A script is not undone when it fails half way. So the one command that can still fail comes first: RPUSH, on a key of another type.
local function record(remaining, order)
  redis.call('RPUSH', KEYS[1] .. ':orders:' .. epoch, order)
  if less(fence, ARGV[3]) then
    fence = ARGV[3]
  end
  redis.call('HSET', KEYS[1], part .. 'quantity', remaining, 'guard', ARGV[2], part .. 'fence', fence)
  redis.call('HINCRBY', KEYS[1], part .. 'version', 1)
  redis.call('HINCRBY', KEYS[1], 'sold', ARGV[4])
  if part ~= '' then
    -- The whole changes by what the segment did, so that it is the sum of its parts also after a blind write.
    redis.call('HINCRBY', KEYS[1], 'quantity', string.format('%.0f', tonumber(remaining) - tonumber(quantity)))
    redis.call('HINCRBY', KEYS[1], 'version', 1)
    if less(redis.call('HGET', KEYS[1], 'fence'), fence) then
      redis.call('HSET', KEYS[1], 'fence', fence)
    end
  end
end

