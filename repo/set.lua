-- Start a new epoch.
-- KEYS[1] stock:{sku}   [2] its orders   [3] ids that are settled
-- [4] where the orders of the epoch that ends are kept; none if there is no epoch yet
-- ARGV[1] quantity   [2] the epoch that ends, "" for none   [3] how long to keep its orders, in seconds
local over = redis.call('HGET', KEYS[1], 'epoch') or ''
if over ~= ARGV[2] then
  return {'reset'}
end
-- All three keys are there from now on, until somebody removes them by hand: while a slot is moved, Redis Cluster
-- refuses a script that names a key which is not there. A set of the settled that is none ends the script here, before
-- it has written.
redis.call('ZADD', KEYS[3], '+inf', '')
if over == '' then
  -- Where somebody removed the stock by hand its orders may still be there, and epochs begin at 1 again.
  redis.call('DEL', KEYS[2])
else
  if redis.call('EXISTS', KEYS[2]) == 1 then
    redis.call('RENAME', KEYS[2], KEYS[4])
  end
  redis.call('EXPIRE', KEYS[4], ARGV[3])
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
redis.call('RPUSH', KEYS[2], s[2])
return {'ok', s[1], s[2]}
