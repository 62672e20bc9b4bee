-- Set the counters of a SKU, and write the movement that documents it, if the books are as they were read.
-- KEYS[1] stock:{sku}   [2] its movements   [3] its carried movement   [4] SKUs with movements to be delivered
-- ARGV[1] SKU   [2] the id of the last movement, "" for none
-- then as they were read: [3] initial   [4] adjusted   [5] quantity   [6] reserved   [7] sold   [8] number
-- then as they shall be: [9] adjusted   [10] quantity   [11] reserved   [12] sold   [13] number   [14] the movement
local s = redis.call('HMGET', KEYS[1], 'initial', 'adjusted', 'quantity', 'reserved', 'sold', 'number', 'guard')
for i = 1, 6 do
  if not s[i] or s[i] == '' then
    s[i] = '0'
  end
  if tonumber(s[i]) ~= tonumber(ARGV[2 + i]) then -- by hand, somebody may have written 007
    return {'changed'}
  end
end
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local carried = not last and redis.call('HGET', KEYS[3], 'number')
if s[7] ~= 'orders' or (last and last[1] or carried and carried .. '-0' or '') ~= ARGV[2] then
  return {'changed'}
end
redis.call('ZCARD', KEYS[4]) -- fails before the first write if the key is of another type
redis.call('XADD', KEYS[2], ARGV[13] .. '-0', 'm', ARGV[14])
redis.call('HSET', KEYS[1], 'adjusted', ARGV[9], 'quantity', ARGV[10], 'reserved', ARGV[11], 'sold', ARGV[12],
  'number', ARGV[13])
redis.call('HINCRBY', KEYS[1], 'version', 1) -- a step that has read the wrong counters decides again
redis.call('ZADD', KEYS[4], 0, ARGV[1])
return {'ok'}
