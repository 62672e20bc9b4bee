-- Give up the lock, which goes to the oldest waiter, or the place in the queue of a value.
-- ARGV[1] value   ARGV[2] lease of a grant, ms
-- Returns 1: the value had the lock, 0: the lock is free, -1: another value has it.
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  may('LREM', KEYS[3], 1, ARGV[1])
  if redis.call('HDEL', KEYS[4], ARGV[1]) == 1 then
    redis.call('LREM', KEYS[3], 1, ARGV[1])
  end
  if holder then
    return -1
  end
  return 0
end
local first, request = oldest()
if first then
  grant(first, request, ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
return 1
