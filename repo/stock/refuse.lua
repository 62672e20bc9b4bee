-- The first half of write.lua and deduct.lua: read the stock, refuse what must not be written, and define record.
-- KEYS[1] stock:{sku}   [2] its orders   [3] ids that are settled   [4] the order's idempotency key, if it has one
-- ARGV[1] epoch, "" for any   [2] strategy   [3] fence, "0" for none   [4] quantity sold
-- [5] id of the order   [6] deadline of the write, in ms by the clock of this server   [7], [8], [10] see the other
-- half [9] of write.lua: prefix of the fields of a segment, such as "3."; "" for the whole stock
-- [11] fingerprint of the request with the idempotency key   [12] how long to keep that key, in ms
local part = ARGV[9] or ''
local s = redis.call('HMGET', KEYS[1], 'epoch', 'guard', part .. 'fence', part .. 'quantity', part .. 'version')
local epoch, guard, fence, quantity, version = s[1], s[2], s[3], s[4], s[5]

if not epoch then
  return {'unknown sku'}
end
if ARGV[1] ~= '' and ARGV[1] ~= epoch then
  return {'reset'}
end
if guard ~= '' and guard ~= ARGV[2] then
  return {'guarded', guard}
end
if not version then
  return {'changed'} -- there is no such segment in this epoch
end
if stale(ARGV[3], fence) then
  return {'stale fence', fence}
end

-- record writes the sale and returns nil, or writes nothing and returns the refusal.
local function record(remaining, order)
  local now = redis.call('TIME')
  if now[1] * 1000 + now[2] / 1000 > tonumber(ARGV[6]) or redis.call('ZSCORE', KEYS[3], ARGV[5]) then
    return {'settled'}
  end
  if KEYS[4] and redis.call('EXISTS', KEYS[4]) == 1 then
    return {'key taken'}
  end
  -- The list begins with its epoch. LINDEX also fails if KEYS[2] is not a list, before anything is written.
  if redis.call('LINDEX', KEYS[2], 0) ~= epoch then
    return {'no orders'}
  end
  may('HSET', KEYS[1], '', '')
  may('HINCRBY', KEYS[1], '', 0)
  if KEYS[4] then
    may('SET', KEYS[4], '')
  end
  if part ~= '' then
    may('HGET', KEYS[1], '')
  end
  redis.call('RPUSH', KEYS[2], order)
  if KEYS[4] then
    redis.call('SET', KEYS[4], ARGV[11] .. order, 'PX', ARGV[12])
  end
  if less(fence, ARGV[3]) then
    fence = ARGV[3]
  end
  redis.call('HSET', KEYS[1], part .. 'quantity', remaining, 'guard', ARGV[2], part .. 'fence', fence)
  redis.call('HINCRBY', KEYS[1], part .. 'version', 1)
  redis.call('HINCRBY', KEYS[1], 'sold', ARGV[4])
  if part ~= '' then
    -- The whole changes by as much as the segment, so that it is the sum of its parts even after a blind write.
    redis.call('HINCRBY', KEYS[1], 'quantity', string.format('%.0f', tonumber(remaining) - tonumber(quantity)))
    redis.call('HINCRBY', KEYS[1], 'version', 1)
    if less(redis.call('HGET', KEYS[1], 'fence'), fence) then
      redis.call('HSET', KEYS[1], 'fence', fence)
    end
  end
end

