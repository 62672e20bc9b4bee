-- Record how far the movements of a SKU were delivered.
-- KEYS[1] stock:{sku}   [2] the record   [3] SKUs with movements to be delivered
-- ARGV[1] SKU   [2] number   [3] fence
--
-- Numbers are compared as strings of digits: see repo/stock/fence.lua.
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end

local d = redis.call('HMGET', KEYS[2], 'number', 'fence')
local number, fence = d[1] or '0', d[2] or '0'
if less(ARGV[3], fence) then
  return {'stale fence', fence}
end
if less(number, ARGV[2]) then
  number = ARGV[2]
end
may('HSET', KEYS[2], '', '')
if not less(number, redis.call('HGET', KEYS[1], 'number') or '0') then
  redis.call('ZREM', KEYS[3], ARGV[1]) -- first, because it fails if the key is of another type
end
redis.call('HSET', KEYS[2], 'number', number, 'fence', ARGV[3])
return {'ok'}
