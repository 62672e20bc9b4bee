-- The common part of enter.lua, leave.lua, inspect.lua and evict.lua. It is put in front of each.
-- KEYS[1] lock (the holder's value)   KEYS[2] last fence   KEYS[3] queue (values, oldest first)
-- KEYS[4] when each waiter last asked, and the number of that request: ms.number
-- A value is PROCESS:NUMBER, a blank, and the owner's name. It belongs to one acquisition, which may make many
-- requests.

-- driver.FenceRange: fences have room for local holders between them; see lock.HandOver.
local SPAN = 64
-- How long a fence is kept after the server's clock has passed it: a day; see mint.
local IDLE = 86400000
-- A waiter asks again every second. One that has not asked for this time is dead, and must not be granted the lock.
local DEAD = 5000
-- A queue is deleted a minute after the last request: all its waiters are dead then.
local QUEUE = 60000

-- clock returns the server's time in microseconds. It reads it once, and only if needed: a release without waiters
-- does not.
local time
local function clock()
  if not time then
    local now = redis.call('TIME')
    time = now[1] * 1000000 + now[2]
  end
  return time
end

-- process returns the process of a value.
local function process(value)
  return string.match(value, '^([^: ]+):')
end

-- mint returns a fence: the server's clock in microseconds, or the last fence plus its room if that is larger. A bare
-- counter would start again after a restart without persistence, and the store would refuse every write as stale. Mint
-- before the lock is written: if the fence's name has a value of another type, the script ends here, and an earlier
-- write would stay.
--
-- The last fence may be forgotten once the clock has passed it and those of its local holders, because then the next
-- fence, which is the clock, is larger anyway. It is kept a day longer in case the clock is set back. A fence may be
-- ahead of the clock, because the clock was set back or because more than 15,625 were minted in a second. Then it is
-- kept longer by that difference.
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

-- oldest removes the oldest living waiter from the queue, and returns it and the number of its last request. Without
-- waiters it writes nothing: once a script has written, Redis no longer refuses it for lack of memory. permitted, if
-- any, asks for the rights that the script needs after that.
local function oldest(permitted)
  local left = redis.call('LLEN', KEYS[3])
  if left > 0 then
    if permitted then
      permitted()
    end
    clock() -- reads the time before the first write, because the user may lack the right to it
    may('HGET', KEYS[4], '')
    may('HDEL', KEYS[4], '')
    may('SET', KEYS[1], '')
    may('DEL', KEYS[1])
  end
  while left > 0 do
    left = left - 1
    local value = redis.call('LPOP', KEYS[3])
    local seen, request = string.match(redis.call('HGET', KEYS[4], value) or '0', '^(%d+)%.?(%d*)$')
    redis.call('HDEL', KEYS[4], value)
    if clock() / 1000 - (tonumber(seen) or 0) < DEAD then
      return value, request
    end
  end
end

-- grant gives the lock to a waiter and publishes that to its process. The lease is short until the waiter has renewed
-- it, because the waiter may have died since its last request.
--
-- The message names the request that it answers. Otherwise a waiter that was stopped for longer than its grant lives,
-- and then asks again, could take the earlier message for the answer. There would be two holders, of which the later
-- one has the older fence.
--
-- A message that the user may not publish is not an error: what was written stays right, and the waiters ask again.
local function grant(value, request, pickup)
  local fence = mint()
  redis.call('SET', KEYS[1], value, 'PX', pickup)
  redis.pcall('PUBLISH', 'watchdog:' .. process(value), value .. '\n' .. request .. '\n' .. fence)
end
