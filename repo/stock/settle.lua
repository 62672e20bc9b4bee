-- Declare an id absent: from now on no order with it is written. All times are in ms, by the clock of this server.
-- KEYS[1] stock:{sku}   [2] ids that are settled, by when they may be forgotten
-- ARGV[1] id   [2] deadline of the write of an order with this id   [3] how long to remember the id
-- [4] how many ids to remember at most
-- Returns the epoch, and the one before it, "0" for none.
local s = redis.call('HMGET', KEYS[1], 'epoch', 'former')
local epoch, former = s[1], s[2] or '0'
if not epoch then
  return {'unknown sku'}
end
local time = redis.call('TIME')
local now = math.floor(time[1] * 1000 + time[2] / 1000)
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  if now > tonumber(ARGV[2]) then
    return {'ok', epoch, former, 'late'}
  end
  may('ZCARD', KEYS[2])
  may('ZADD', KEYS[2], 0, '')
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))
  if redis.call('ZCARD', KEYS[2]) > tonumber(ARGV[4]) then
    return {'full'}
  end
end
redis.call('ZADD', KEYS[2], string.format('%.0f', now + tonumber(ARGV[3])), ARGV[1])
return {'ok', epoch, former, 'settled'}
