-- Give the lock back if it is ours.
-- KEYS[1] lock   ARGV[1] value
-- Returns 1: done, 0: the key is gone, -1: another value has it.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 1
end
if holder then
  return -1
end
return 0
