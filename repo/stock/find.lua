-- Look for an order in a page of the orders of one epoch. Pages go from the last order to the first. Nothing is
-- written. KEYS[1] the orders
-- ARGV[1] their epoch   [2] a text that only this order contains
-- [3] last index of the page, "" for the end of the list   [4] size of the page
-- Returns the order or "", the last index of the next page, "" if there is none, and the epoch before this one, "0" if
-- this is the first, or has not ended.
local head = redis.call('LINDEX', KEYS[1], 0) or ''
local epoch, former = string.match(head, '^(%d+) ?(%d*)$')
if epoch ~= ARGV[1] then
  return {'reset'}
end
local last = tonumber(ARGV[3]) or redis.call('LLEN', KEYS[1]) - 1
local first = math.max(1, last - tonumber(ARGV[4]) + 1)
for _, order in ipairs(redis.call('LRANGE', KEYS[1], first, last)) do
  if string.find(order, ARGV[2], 1, true) then
    return {'ok', order, '', '0'}
  end
end
if first == 1 then
  return {'ok', '', '', former ~= '' and former or '0'}
end
return {'ok', '', string.format('%.0f', first - 1), '0'}
