-- Give the lock back if it is ours, even if we entered several times, and publish that it is free. If the user may not
-- publish, the lock is free all the same.
-- KEYS[1] lock   ARGV[1] value
-- Returns 1: done, 0: the lock is free, -1: another value has it.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('DEL', KEYS[1])
  redis.pcall('PUBLISH', 'rlock:free', KEYS[1])
  return 1
end
return -redis.call('EXISTS', KEYS[1])
