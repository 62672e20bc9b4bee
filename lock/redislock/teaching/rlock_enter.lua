-- Take the lock if it is free.
-- KEYS[1] lock, a hash with one field: the holder's value and how often it has entered
-- ARGV[1] value   ARGV[2] lease, ms
-- Returns {'0'}: it is ours, and has no fence; or {'0', holder's value, its remaining ms (-1: no limit)}.
local holder = redis.call('HKEYS', KEYS[1])[1]
if holder and holder ~= ARGV[1] then
  may('PUBLISH', 'rlock:free', '') -- our user is that of the holder: without the message nobody would wake us
  local left = redis.call('PTTL', KEYS[1])
  if left == 0 then
    left = 1 -- less than a millisecond, and not "no limit"
  end
  return {'0', holder, left}
end
may('PEXPIRE', KEYS[1], ARGV[2])
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'0'}
