-- Raise the fence of the stock, or of a segment, without a sale, so that writes with smaller fences are refused.
-- KEYS[1] stock:{sku}
-- ARGV[1] strategy   [2] fence   [3] prefix of the fields of the segment, such as "3."; "" for the whole stock
local s = redis.call('HMGET', KEYS[1], 'epoch', 'guard', ARGV[3] .. 'version')
local epoch, guard, version = s[1], s[2], s[3]
if not epoch then
  return {'unknown sku'}
end
if guard ~= '' and guard ~= ARGV[1] then
  return {'guarded', guard}
end
may('HSET', KEYS[1], '', '')
may('HGET', KEYS[1], '')
if not version then
  may('HINCRBY', KEYS[1], '', 0)
  -- Create the segment. Then a client that was about to create it fails to, and the fence refuses its later writes.
  redis.call('HSET', KEYS[1], ARGV[3] .. 'quantity', 0, ARGV[3] .. 'version', 1, ARGV[3] .. 'fence', 0)
  redis.call('HINCRBY', KEYS[1], 'version', 1)
end
-- The stock has the largest fence of its segments.
for _, field in ipairs({ARGV[3] .. 'fence', 'fence'}) do
  local fence = redis.call('HGET', KEYS[1], field)
  if less(fence, ARGV[2]) then
    redis.call('HSET', KEYS[1], field, ARGV[2], 'guard', ARGV[1])
  end
end
return {'ok'}
