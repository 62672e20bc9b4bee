-- Take the lock if it is free and no waiter came earlier. Otherwise queue up if ARGV[4] is not '0'.
-- ARGV[1] value   ARGV[2] lease, ms   ARGV[3] lease of a grant, ms
-- ARGV[4] number of this request; '0': do not queue up
-- Returns the fence, or {'0', holder's value, its remaining ms (-1: no limit)}. A fence that was minted before is in a
-- list. A new one is not, because Redis allocates a buffer of 16 KB for a list.

-- joining comes before the first write of a request that queues up. A waiter needs the right to publish because its own
-- release wakes the next one.
local function joining()
  may('HSET', KEYS[4], '', '')
  may('RPUSH', KEYS[3], '')
  may('PEXPIRE', KEYS[3], QUEUE)
  may('PTTL', KEYS[1])
  may('PUBLISH', 'watchdog:' .. process(ARGV[1]), '')
end

local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  -- Ours: by a grant whose message has not arrived, or by an earlier request whose reply was lost.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {redis.call('GET', KEYS[2])}
end
if not holder then
  local first, request = oldest(joining)
  if not first or first == ARGV[1] then
    local fence = mint()
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return fence
  end
  grant(first, request, ARGV[3])
  holder = first
elseif ARGV[4] ~= '0' then
  joining()
end
if ARGV[4] ~= '0' then
  redis.call('LLEN', KEYS[3]) -- fails if it is no queue, before anything is written
  local seen = string.format('%.0f', math.floor(clock() / 1000)) .. '.' .. ARGV[4]
  if redis.call('HSET', KEYS[4], ARGV[1], seen) == 1 then
    redis.call('RPUSH', KEYS[3], ARGV[1])
  end
  redis.call('PEXPIRE', KEYS[3], QUEUE)
  redis.call('PEXPIRE', KEYS[4], QUEUE)
end
return {'0', holder, redis.call('PTTL', KEYS[1])}
