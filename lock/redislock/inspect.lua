-- Read the holder of the lock and its waiters. It writes nothing. queue.lua is put in front of it, for its KEYS and
-- its DEAD; a lock without a queue gives two keys only.
-- Returns {holder's value or '', its remaining ms (-1: no limit), last fence, now in us, {waiters' values}}.
local waiters = {}
if KEYS[3] then
  for _, value in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do
    if clock() / 1000 - tonumber(redis.call('HGET', KEYS[4], value) or '0') < DEAD then
      waiters[#waiters + 1] = value
    end
  end
end
return {
  redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) or '0',
  string.format('%.0f', clock()), waiters,
}
