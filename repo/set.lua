-- Start a new epoch. KEYS[1] stock:{sku}   ARGV[1] quantity   [2] "seed" to leave a SKU that exists alone   [3] how long to keep the
-- orders of the epoch that ends, in seconds
local over = redis.call('HGET', KEYS[1], 'epoch')
if over and ARGV[2] == 'seed' then
  return {'ok'}
end
if over then
  redis.call('EXPIRE', KEYS[1] .. ':orders:' .. over, ARGV[3])
end
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.find(field, '.', 1, true) then -- of a segment
    redis.call('HDEL', KEYS[1], field)
  end
end
redis.call('HINCRBY', KEYS[1], 'epoch', 1)
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('HSET', KEYS[1], 'quantity', ARGV[1], 'initial', ARGV[1], 'sold', 0, 'fence', 0, 'guard', '')
local s = redis.call('HMGET', KEYS[1], 'version', 'epoch')
-- Where somebody removed the stock by hand its orders may still be there, and epochs begin at 1 again.
redis.call('DEL', KEYS[1] .. ':orders:' .. s[2])
return {'ok', s[1], s[2]}
