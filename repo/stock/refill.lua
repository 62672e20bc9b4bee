-- Move units into a segment.
-- KEYS[1] stock:{sku}
-- ARGV[1] epoch   [2] strategy   [3] units from the reserve
-- [4], [5], [6] prefix of the segment that receives the units, such as "3.", its version, "0" if it does not exist yet,
-- and its quantity
-- then three for each segment to empty into it: prefix, version and quantity
local all = redis.call('HGETALL', KEYS[1])
local h = {}
for i = 1, #all, 2 do
  h[all[i]] = all[i + 1]
end

if not h.epoch then
  return {'unknown sku'}
end
if ARGV[1] ~= h.epoch then
  return {'reset'}
end
if h.guard ~= '' and h.guard ~= ARGV[2] then
  return {'guarded', h.guard}
end

-- Redis does not undo a script that fails half way, so all checks come before the first write.
local reserve = tonumber(h.quantity)
for field, value in pairs(h) do
  if string.find(field, '.quantity', 1, true) then
    reserve = reserve - tonumber(value)
  end
end
local moved = tonumber(ARGV[3])
if reserve < moved then
  return {'changed'}
end
for i = 4, #ARGV, 3 do
  if (h[ARGV[i] .. 'version'] or '0') ~= ARGV[i + 1] or (h[ARGV[i] .. 'quantity'] or '0') ~= ARGV[i + 2] then
    return {'changed'}
  end
end

may('HINCRBY', KEYS[1], '', 1)
may('HSETNX', KEYS[1], '', '')
may('HSET', KEYS[1], '', '')
for i = 7, #ARGV, 3 do
  moved = moved + tonumber(h[ARGV[i] .. 'quantity'])
  redis.call('HSET', KEYS[1], ARGV[i] .. 'quantity', 0)
  redis.call('HINCRBY', KEYS[1], ARGV[i] .. 'version', 1)
end
redis.call('HINCRBY', KEYS[1], ARGV[4] .. 'quantity', string.format('%.0f', moved))
redis.call('HINCRBY', KEYS[1], ARGV[4] .. 'version', 1)
redis.call('HSETNX', KEYS[1], ARGV[4] .. 'fence', 0)
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('HSET', KEYS[1], 'guard', ARGV[2])
return {'ok'}
