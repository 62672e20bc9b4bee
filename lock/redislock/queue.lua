-- The common part of enter.lua, leave.lua, inspect.lua and evict.lua. With fence.lua it is put in front of each.
-- KEYS[1] lock (the holder's value)   KEYS[2] last fence   KEYS[3] queue (values, oldest first)
-- KEYS[4] when each waiter last asked, and the number of that request: ms.number
-- A value is PROCESS:NUMBER, a blank, and the owner's name. It belongs to one acquisition, which may make many
-- requests.

-- A waiter asks again every second. One that has not asked for this time is dead, and must not be granted the lock.
local DEAD = 5000
-- A queue is deleted a minute after the last request: all its waiters are dead then.
local QUEUE = 60000

-- process returns the process of a value.
local function process(value)
  return string.match(value, '^([^: ]+):')
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
