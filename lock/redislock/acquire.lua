-- Take the lock if it is free, and mint its fence in the same step.
-- KEYS[1] lock   KEYS[2] last fence   ARGV[1] value (token and owner)   ARGV[2] lease, ms
-- ARGV[3] how long the clock must be past a fence before the fence may be forgotten, ms; see mint in queue.lua
-- Returns the fence, or {'0', holder's value, its remaining ms (-1: no limit)}. A fence that was minted before is in a
-- list. A new one is not, because Redis allocates a buffer of 16 KB for a list.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return {'0', holder, redis.call('PTTL', KEYS[1])}
end
-- Read before the first write: if the fence's name has a value of another type, the script ends here, and an earlier
-- write would stay.
local text = redis.call('GET', KEYS[2])
if holder then
  -- Ours already: the reply to an earlier request was lost. The fence that it minted is still the last one.
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {text}
end
-- A fence is the server's clock in microseconds, or one more than the last fence if that is larger. A bare INCR would
-- start again at 1 after a restart without persistence, and every write would be refused as stale; and its keys could
-- never expire.
local now = redis.call('TIME')
local fence = now[1] * 1000000 + now[2]
local last = tonumber(text or '0') or 0
if last >= fence then
  fence = last + 1
end
local ahead = math.ceil((fence + 1 - (now[1] * 1000000 + now[2])) / 1000)
fence = string.format('%.0f', fence)
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], fence, 'PX', string.format('%.0f', ARGV[3] + ahead))
return fence
