-- Set the largest number of units that one customer may have. KEYS[1] stock:{sku}   ARGV[1] units, 0 for no limit
local s = redis.call('HMGET', KEYS[1], 'epoch', 'guard')
if not s[1] then
  return {'unknown sku'}
end
if s[2] ~= '' and s[2] ~= 'orders' then
  return {'guarded', s[2]}
end
may('HINCRBY', KEYS[1], '', 1)
redis.call('HSET', KEYS[1], 'per_customer', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'version', 1) -- a step that has read the old limit decides again
return {'ok'}
