-- Take the lock if it is free. fence.lua is put in front of it.
-- KEYS[1] lock   KEYS[2] last fence   ARGV[1] value   ARGV[2] lease, ms
-- Returns the fence, or {'0', holder's value, its remaining ms (-1: no limit)}. A fence that was minted before is in a
-- list. A new one is not, because Redis allocates a buffer of 16 KB for a list.
local holder = redis.call('GET', KEYS[1])
if not holder then
  local fence = mint()
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return fence
end
if holder ~= ARGV[1] then
  return {'0', holder, redis.call('PTTL', KEYS[1])}
end
-- Ours already: the reply to an earlier request was lost. The fence that it minted is still the last one.
local fence = redis.call('GET', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {fence}
