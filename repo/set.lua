-- Start a new epoch. KEYS[1] stock:{sku}   ARGV[1] quantity   [2] "seed" to leave a SKU that exists alone   [3] how long to keep the
-- orders of the epoch that ends, in seconds   [4], [5] tags of which the stock must have one, or none,
-- such as " 1-7 1-8 ", " * " for any that exists, "" for whatever it is
local over = redis.call('HGET', KEYS[1], 'epoch')
if ARGV[4] ~= '' or ARGV[5] ~= '' then
  local tag = over and over .. '-' .. redis.call('HGET', KEYS[1], 'version')
  local function has(tags)
    return tag and (string.find(tags, ' * ', 1, true) or string.find(tags, ' ' .. tag .. ' ', 1, true))
  end
  if (ARGV[4] ~= '' and not has(ARGV[4])) or has(ARGV[5]) then
    return {'precondition'}
  end
end
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
