-- Start a new epoch. Its number is the time of this server in µs, or one more than the last number if the clock is
-- behind. So no number comes again after the SKU was deleted, or after a fail-over that has lost the last epoch.
-- KEYS[1] stock:{sku}   [2] its orders   [3] ids that are settled
-- [4] new key of the orders of the epoch that ends; absent if there is no epoch yet
-- ARGV[1] quantity   [2] the epoch that ends, "" for none   [3] how long to keep its orders, in seconds
-- [4] tags of which the stock must have one   [5] tags of which it must have none; each such as " 1-7-5 1-8-4 ", " * "
-- for any stock that exists, "" for no condition   [6] "never there" to refuse a SKU that has left keys behind, or ""
local over = redis.call('HGET', KEYS[1], 'epoch') or ''
if over ~= ARGV[2] then
  return {'reset'}
end
if ARGV[6] ~= '' and redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then
  return {'reset'}
end
if ARGV[4] ~= '' or ARGV[5] ~= '' then
  local s = redis.call('HMGET', KEYS[1], 'version', 'quantity')
  local tag = over ~= '' and over .. '-' .. s[1] .. '-' .. s[2]
  local function has(tags)
    return tag and (string.find(tags, ' * ', 1, true) or string.find(tags, ' ' .. tag .. ' ', 1, true))
  end
  if (ARGV[4] ~= '' and not has(ARGV[4])) or has(ARGV[5]) then
    return {'precondition'}
  end
end
-- Make sure that all three keys exist: while Redis Cluster moves a slot, it refuses a script that names a key which
-- does not exist. This is the first write, and fails if KEYS[3] is of another type.
local time = redis.call('TIME')
for _, command in ipairs({'DEL', 'EXISTS', 'HKEYS'}) do
  may(command, KEYS[1])
end
if over ~= '' then
  may('LINDEX', KEYS[2], 0)
  may('LSET', KEYS[2], 0, '')
  may('RENAME', KEYS[2], KEYS[4])
  may('EXPIRE', KEYS[4], ARGV[3])
end
may('HDEL', KEYS[1], '')
may('HINCRBY', KEYS[1], '', 1)
may('HSET', KEYS[1], '', '')
may('HMGET', KEYS[1], '')
may('RPUSH', KEYS[2], '')
redis.call('ZADD', KEYS[3], '+inf', '')
if over == '' then
  redis.call('DEL', KEYS[2]) -- the orders of a stock whose hash was deleted by hand
else
  if redis.call('EXISTS', KEYS[2]) == 1 then
    local former = redis.call('HGET', KEYS[1], 'former')
    if former and redis.call('LINDEX', KEYS[2], 0) == over then
      redis.call('LSET', KEYS[2], 0, over .. ' ' .. former)
    end
    redis.call('RENAME', KEYS[2], KEYS[4])
  end
  redis.call('EXPIRE', KEYS[4], ARGV[3])
  redis.call('HSET', KEYS[1], 'former', over)
end
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.find(field, '.', 1, true) then -- of a segment
    redis.call('HDEL', KEYS[1], field)
  end
end
redis.call('HINCRBY', KEYS[1], 'epoch', 1)
local now = string.format('%.0f', time[1] * 1000000 + time[2])
if less(redis.call('HGET', KEYS[1], 'epoch'), now) then
  redis.call('HSET', KEYS[1], 'epoch', now)
end
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('HSET', KEYS[1], 'quantity', ARGV[1], 'initial', ARGV[1], 'sold', 0, 'fence', 0, 'guard', '')
local s = redis.call('HMGET', KEYS[1], 'version', 'epoch')
redis.call('RPUSH', KEYS[2], s[2])
return {'ok', s[1], s[2]}
