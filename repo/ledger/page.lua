-- Return a page of the ids of a customer's orders, the newest first. Nothing is written.
-- KEYS[1] ids by when they were made   ARGV[1] the last id of the page before, "" for none   [2] how many at most
local first = 0
if ARGV[1] ~= '' then
  first = redis.call('ZREVRANK', KEYS[1], ARGV[1])
  if not first then
    return {'ok', '', {}}
  end
  first = first + 1
end
return {'ok', 'found', redis.call('ZREVRANGE', KEYS[1], first, first + ARGV[2] - 1)}
