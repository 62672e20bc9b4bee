-- Replace the origin if it is the expected one, and forget which SKUs were seeded with it.
-- KEYS[1] stock:origin
-- ARGV[1], [2], [3] expected id, generation and lost; "", "0" and "0" for no origin   [4], [5], [6] new ones
local s = redis.call('HMGET', KEYS[1], 'id', 'generation', 'lost')
if (s[1] or '') ~= ARGV[1] or (s[2] or '0') ~= ARGV[2] or (s[3] or '0') ~= ARGV[3] then
  return 'changed'
end
may('HSET', KEYS[1], '', '')
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'id', ARGV[4], 'generation', ARGV[5], 'lost', ARGV[6])
return 'ok'
