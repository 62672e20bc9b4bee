-- Take the lock from its holder and give it to the oldest waiter, if there is one. queue.lua is put in front of it; a
-- lock without a queue gives two keys only.
-- ARGV[1] lease of a grant, ms
-- Returns a fence that is larger than all earlier fences and smaller than all later ones.
--
-- DEL comes first: it is allowed where memory is short, and after it the other writes are allowed as well.
may('GET', KEYS[2])
may('SET', KEYS[2], '')
may('TIME')
may('DEL', KEYS[1])
redis.call('GET', KEYS[2]) -- fails if it is no fence: without a fence no holder may be evicted
if KEYS[3] then
  may('LLEN', KEYS[3])
  if redis.call('LLEN', KEYS[3]) > 0 then
    may('LPOP', KEYS[3])
    may('HGET', KEYS[4], '')
    may('HDEL', KEYS[4], '')
  end
end
redis.call('DEL', KEYS[1])
local fence = mint()
if KEYS[3] then
  local first, request = oldest()
  if first then
    grant(first, request, ARGV[1])
  end
end
return fence
