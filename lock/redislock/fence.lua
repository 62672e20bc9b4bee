-- What mints a fence. It is put in front of acquire.lua and queue.lua.
-- KEYS[2] last fence

-- driver.FenceRange: fences have room for local holders between them; see lock.HandOver.
local SPAN = 64
-- How long a fence is kept after the server's clock has passed it: a day; see mint.
local IDLE = 86400000

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

-- mint returns a fence: the server's clock in microseconds, or the last fence plus its room if that is larger. A bare
-- counter would start again after a restart without persistence, and the store would refuse every write as stale. Mint
-- before the lock is written: if the fence's name has a value of another type, the script ends here, and an earlier
-- write would stay.
--
-- The last fence may be forgotten once the clock has passed it and those of its local holders, because then the next
-- fence, which is the clock, is larger anyway. It is kept a day longer in case the clock is set back. A fence may be
-- ahead of the clock, because the clock was set back or because more than 15,625 were minted in a second. Then it is
-- kept longer by that difference. So the server keeps one key, of about 120 bytes and the name, for each lock that was
-- held in the last day.
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
