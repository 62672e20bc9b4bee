-- Raise the fence of the stock without a write, so that smaller ones are refused from now on.
-- KEYS[1] stock:{sku}   ARGV[1] strategy   [2] fence
--
-- Digits are compared as digits: see refuse.lua.
local s = redis.call('HMGET', KEYS[1], 'epoch', 'guard', 'fence')
local epoch, guard, fence = s[1], s[2], s[3]
if not epoch then
  return {'unknown sku'}
end
if guard ~= '' and guard ~= ARGV[1] then
  return {'guarded', guard}
end
if #fence < #ARGV[2] or (#fence == #ARGV[2] and fence < ARGV[2]) then
  redis.call('HSET', KEYS[1], 'fence', ARGV[2], 'guard', ARGV[1])
end
return {'ok'}
