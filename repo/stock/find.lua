-- Look for an order in a page of the orders of one epoch. Pages go from the last order to the first. Nothing is
-- written. KEYS[1] the orders
-- ARGV[1] their epoch   [2] a text that only this order contains
-- [3] last index of the page, "" for the end of the list   [4] size of the page
-- Returns the order or "", the last index of the next page, "" if there is none, and the epoch before this one, "" if
-- the list does not have it.
local head = redis.call('LINDEX', KEYS[1], 0) or ''
local epoch, former = string.match(head, '^(%d+) ?(%d*)$')
local least = 1
if string.sub(head, 1, 1) == '{' then
  least = 0 -- A list of an earlier version of this service begins with an order. Its key contains the epoch.
elseif epoch ~= ARGV[1] then
  return {'reset'}
end
local last = tonumber(ARGV[3]) or redis.call('LLEN', KEYS[1]) - 1
local first = math.max(least, last - tonumber(ARGV[4]) + 1)
for _, order in ipairs(redis.call('LRANGE', KEYS[1], first, last)) do
  if string.find(order, ARGV[2], 1, true) then
    return {'ok', order, '', ''}
  end
end
if first == least then
  return {'ok', '', '', former or ''}
end
return {'ok', '', string.format('%.0f', first - 1), ''}
