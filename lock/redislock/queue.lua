-- What enter.lua and leave.lua share; it is put in front of both.
-- KEYS[1] lock (the holder's value)   KEYS[2] last fence   KEYS[3] queue (values, oldest first)   KEYS[4] when each was last seen, ms
-- A value is PROCESS:NUMBER, a blank, and the owner's name. It belongs to one acquisition.

-- Fences have room for 64 local holders between them; see lock.HandOver.
local SPAN = 64
-- An idle fence, or a queue that nobody asks about, is forgotten after a day.
local IDLE = 86400000
-- A waiter asks again every second. One that has not for so long is dead, and must not be granted anything.
local DEAD = 5000

-- clock is the server's time in microseconds, asked for once. A release that nobody waits for does not need it.
local time
local function clock()
  if not time then
    local now = redis.call('TIME')
    time = now[1] * 1000000 + now[2]
  end
  return time
end

-- mint returns a fence: the server's clock in microseconds, or more than the last one if that is larger. A bare counter would
-- start again after a restart without persistence, and every write would be refused as stale. It comes before the lock is written: if
-- there is something else under the fence's name the script ends here, and what it had written would stay.
local function mint()
  local fence = clock()
  local last = tonumber(redis.call('GET', KEYS[2]) or '0') or 0
  if fence < last + SPAN then
    fence = last + SPAN
  end
  local text = string.format('%.0f', fence)
  redis.call('SET', KEYS[2], text, 'PX', IDLE)
  return text
end

-- oldest takes the oldest living waiter out of the queue. It writes nothing where nobody waits: once a script has written, Redis
-- no longer refuses it for want of memory.
local function oldest()
  while redis.call('LLEN', KEYS[3]) > 0 do
    local value = redis.call('LPOP', KEYS[3])
    local seen = tonumber(redis.call('HGET', KEYS[4], value) or '0')
    redis.call('HDEL', KEYS[4], value)
    if clock() / 1000 - seen < DEAD then
      return value
    end
  end
end

-- grant gives the lock to a waiter and tells its process. The lease is short until the waiter confirms it by renewal: it may have
-- died since it was last seen.
local function grant(value, pickup)
  local fence = mint()
  redis.call('SET', KEYS[1], value, 'PX', pickup)
  redis.call('PUBLISH', 'watchdog:' .. string.match(value, '^[^:]+'), value .. '\n' .. fence)
end
