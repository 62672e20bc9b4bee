-- Take the lock if it is free. fence.lua is put in front of it.
-- KEYS[1] lock   KEYS[2] last fence   ARGV[1] value   ARGV[2] lease, ms
-- Returns the fence, or {'0', holder's value, its remaining ms (-1: no limit)}. The fence is in no list, because Redis
-- allocates a buffer of 16 KB for one.
local holder = redis.call('GET', KEYS[1])
if holder then
  return {'0', holder, redis.call('PTTL', KEYS[1])}
end
local fence = mint()
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return fence
