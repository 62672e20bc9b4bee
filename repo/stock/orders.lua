-- Return a page of the orders of the current epoch. Nothing is written.
-- KEYS[1] stock:{sku}   [2] its orders
-- ARGV[1] epoch of the cursor, "" for the first page   [2], [3] first and last index
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch then
  return {'unknown sku'}
end
if ARGV[1] ~= '' and ARGV[1] ~= epoch then
  return {'reset'}
end
if redis.call('LINDEX', KEYS[2], 0) ~= epoch then
  return {'no orders'}
end
return {'ok', epoch, redis.call('LRANGE', KEYS[2], ARGV[2], ARGV[3])}
