-- What enter.lua, leave.lua, inspect.lua and evict.lua share; it is put in front of each.
-- KEYS[1] lock (the holder's value)   KEYS[2] last fence   KEYS[3] queue (values, oldest first)
-- KEYS[4] when each waiter last asked, and the number of that request: ms.number
-- A value is PROCESS:NUMBER, a blank, and the owner's name. It belongs to one acquisition, which may make many
-- requests.

-- Fences have room for 64 local holders between them; see lock.HandOver.
local SPAN = 64
-- How long the server's clock must be past a fence before the fence may be forgotten: a day; see mint.
local IDLE = 86400000
-- A waiter asks again every second. One that has not asked for so long is dead, and must not be granted anything.
local DEAD = 5000
-- A queue that nobody asks about is deleted after a minute: all its waiters are dead.
local QUEUE = 60000

-- clock is the server's time in microseconds, asked for once. A release that nobody waits for does not need it.
local time
local function clock()
  if not time then
    local now = redis.call('TIME')
    time = now[1] * 1000000 + now[2]
  end
  return time
end

-- mint returns a fence: the server's clock in microseconds, or more than the last fence if that is larger. A bare
-- counter would start again after a restart without persistence, and every write would be refused as stale. Mint
-- before the lock is written: if there is something else under the fence's name the script ends here, and what it
-- had written would stay.
--
-- The last fence may be forgotten once the clock is past it and past those of its local holders: then the next one,
-- which is the clock, is larger anyway. A day more covers a clock that is set back meanwhile. A fence may be ahead of
-- the clock, because the clock was set back or because more than 15,625 were minted in a second. It then lives longer
-- by the time that it is ahead.
local function mint()
  local fence = clock()
  local last = tonumber(redis.call('GET', KEYS[2]) or '0') or 0
  if fence < last + SPAN then
    fence = last + SPAN
  end
  local text = string.format('%.0f', fence)
  redis.call('SET', KEYS[2], text, 'PX', string.format('%.0f', IDLE + math.ceil((fence + SPAN - clock()) / 1000)))
  return text
end

-- oldest takes the oldest living waiter out of the queue, and returns it and the number of its last request. It writes
-- nothing where nobody waits: once a script has written, Redis no longer refuses it for want of memory.
local function oldest()
  while redis.call('LLEN', KEYS[3]) > 0 do
    local value = redis.call('LPOP', KEYS[3])
    local seen, request = string.match(redis.call('HGET', KEYS[4], value) or '0', '^(%d+)%.?(%d*)$')
    redis.call('HDEL', KEYS[4], value)
    if clock() / 1000 - (tonumber(seen) or 0) < DEAD then
      return value, request
    end
  end
end

-- grant gives the lock to a waiter and tells its process. The lease is short until the waiter confirms it by
-- renewal: it may have died since it was last seen.
--
-- The message names the request that it answers. Otherwise a waiter that was stopped for longer than its grant, and
-- then asks again, would take the earlier message, which is still on its way, for the answer. It would hold the
-- lock beside another holder, with an older fence.
local function grant(value, request, pickup)
  local fence = mint()
  redis.call('SET', KEYS[1], value, 'PX', pickup)
  redis.call('PUBLISH', 'watchdog:' .. string.match(value, '^[^:]+'), value .. '\n' .. request .. '\n' .. fence)
end
