-- Extend the lease if the lock is still ours.
-- KEYS[1] lock   ARGV[1] value   ARGV[2] lease, ms
-- Returns 1: done, 0: the lock is free, -1: another value has it.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return -redis.call('EXISTS', KEYS[1])
