-- Replace the dead letter in field ARGV[1] of the hash KEYS[1] with ARGV[3], or remove it if ARGV[3] is empty, if the
-- letter is still ARGV[2].
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return {'changed'}
end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return {'ok'}
