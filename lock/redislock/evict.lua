-- Take the lock from whoever has it and give it to the oldest waiter, if there is one. Behind queue.lua; a lock without a
-- queue gives two keys only.
-- ARGV[1] lease of a grant, ms
-- Returns a fence that is larger than every one before and smaller than every one to come.
--
-- DEL comes first: it is allowed where memory is short, and after it so are the others.
redis.call('GET', KEYS[2]) -- fails if it is no fence: without a fence nobody is evicted
redis.call('DEL', KEYS[1])
local fence = mint()
if KEYS[3] then
  local first, ask = oldest()
  if first then
    grant(first, ask, ARGV[1])
  end
end
return fence
