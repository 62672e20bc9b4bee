-- Remember the origin of another store, unless a later one is remembered.
-- KEYS[1] stock:remembered   ARGV[1] store   [2] generation   [3] id
local s = redis.call('HGET', KEYS[1], ARGV[1])
if s and tonumber(string.match(s, '^%d+')) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return 1
