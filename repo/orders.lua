-- A page of the orders of this epoch. KEYS[1] stock:{sku}   ARGV[1] epoch of the cursor, "" for the first page   [2], [3] first and last index
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch then
  return {'unknown sku'}
end
if ARGV[1] ~= '' and ARGV[1] ~= epoch then
  return {'reset'}
end
return {'ok', epoch, redis.call('LRANGE', KEYS[1] .. ':orders:' .. epoch, ARGV[2], ARGV[3])}
