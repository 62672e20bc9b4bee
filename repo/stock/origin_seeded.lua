-- Record that a SKU was seeded with an origin. KEYS[1] stock:origin   ARGV[1] id of the origin   [2] SKU
local s = redis.call('HMGET', KEYS[1], 'id', 'lost')
if s[1] ~= ARGV[1] or s[2] ~= '0' then
  return 0
end
return redis.call('HSETNX', KEYS[1], 'seeded:' .. ARGV[2], 1)
