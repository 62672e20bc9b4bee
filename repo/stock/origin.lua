-- Record an origin where the one expected is recorded. KEYS[1] stock:origin   ARGV[1], [2], [3] expected id,
-- generation, lost [4], [5], [6] those to record. "" or "0" stand for what is not there.
--
-- A new origin forgets which SKUs were seeded with the old one.
local s = redis.call('HMGET', KEYS[1], 'id', 'generation', 'lost')
if (s[1] or '') ~= ARGV[1] or (s[2] or '0') ~= ARGV[2] or (s[3] or '0') ~= ARGV[3] then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'id', ARGV[4], 'generation', ARGV[5], 'lost', ARGV[6])
return 1
