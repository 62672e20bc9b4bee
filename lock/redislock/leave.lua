-- Give up whatever a value has: the lock, which goes to the oldest waiter, or a place in the queue.
-- ARGV[1] value   ARGV[2] lease of a grant, ms
-- Returns 1: it had the lock, 0: nobody has it, -1: another has it.
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
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
