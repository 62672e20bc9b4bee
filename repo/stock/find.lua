-- Look for an order in a page of one epoch's orders, from the last to the first. It writes nothing.
-- KEYS[1] the orders
-- ARGV[1] their epoch   [2] a part of the order that no other has
-- [3] last index of the page, "" for the last of all   [4] size of the page
-- Returns the order or "", and the last index of the page before, "" if there is none.
local head = redis.call('LINDEX', KEYS[1], 0)
local least = 1
if head and string.sub(head, 1, 1) == '{' then
  least = 0 -- A list of an earlier version of this service begins with an order. Its name tells the epoch.
elseif head ~= ARGV[1] then
  return {'reset'}
end
local last = tonumber(ARGV[3]) or redis.call('LLEN', KEYS[1]) - 1
local first = math.max(least, last - tonumber(ARGV[4]) + 1)
for _, order in ipairs(redis.call('LRANGE', KEYS[1], first, last)) do
  if string.find(order, ARGV[2], 1, true) then
    return {'ok', order, ''}
  end
end
if first == least then
  return {'ok', '', ''}
end
return {'ok', '', string.format('%.0f', first - 1)}
