-- Deduct a batch of orders, one after the other, each as deduct.lua does.
-- KEYS[1] stock:{sku}   [2] its orders   [3] ids that are settled   [4] and more: idempotency keys of the orders
-- ARGV[1] how long to keep idempotency keys, in ms
-- then nine for each order: epoch, "" for any; strategy; fence, "0" for none; quantity; id; deadline of the write, in
-- ms by the clock of this server; the order as JSON without its opening brace; index of its idempotency key in KEYS,
-- "0" for none; fingerprint of its request
-- Returns the epoch, and for each order what refuse.lua and deduct.lua would return.
--
-- Redis does not undo a script that fails half way, so all checks come before the first write. The hash and the list
-- are written once for all orders.

-- plus adds a small number to a string of digits that may be too large for a double.
local function plus(digits, n)
  local head, sum = string.sub(digits, 1, -10), tonumber(string.sub(digits, -9)) + n
  if head == '' then
    return string.format('%.0f', sum)
  end
  if sum < 1e9 then
    return head .. string.format('%09.0f', sum)
  end
  return plus(head, 1) .. string.format('%09.0f', sum - 1e9)
end

local s = redis.call('HMGET', KEYS[1], 'epoch', 'guard', 'fence', 'quantity', 'version')
local epoch, guard, fence, version = s[1], s[2], s[3], s[5]
if not epoch then
  return {'unknown sku'}
end
local had, left = tonumber(s[4]), tonumber(s[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local settled = redis.call('ZCARD', KEYS[3]) > 1 -- set.lua has put in an entry that is not an id
local listed = redis.call('LINDEX', KEYS[2], 0) == epoch

local replies, orders, keyed = {}, {}, {}
for i = 2, #ARGV, 9 do
  local key = KEYS[tonumber(ARGV[i + 7])]
  local after = left - tonumber(ARGV[i + 3])
  local reply
  if ARGV[i] ~= '' and ARGV[i] ~= epoch then
    reply = {'reset'}
  elseif guard ~= '' and guard ~= ARGV[i + 1] then
    reply = {'guarded', guard}
  elseif stale(ARGV[i + 2], fence) then
    reply = {'stale fence', fence}
  elseif after < 0 then
    reply = {'sold out', string.format('%.0f', left)}
  elseif now > tonumber(ARGV[i + 5]) or (settled and redis.call('ZSCORE', KEYS[3], ARGV[i + 4])) then
    reply = {'settled'}
  elseif key and (keyed[key] or redis.call('EXISTS', key) == 1) then
    reply = {'key taken'}
  elseif not listed then
    reply = {'no orders'}
  else
    local read, remaining = string.format('%.0f', left), string.format('%.0f', after)
    reply = {'ok', read, remaining, version}
    orders[#orders + 1] = '{"read":' .. read .. ',"remaining":' .. remaining .. ',"version":' .. version ..
      ',"epoch":' .. epoch .. ',' .. ARGV[i + 6]
    if key then
      keyed[key] = ARGV[i + 8] .. orders[#orders]
    end
    left, version, guard = after, plus(version, 1), ARGV[i + 1]
    if less(fence, ARGV[i + 2]) then
      fence = ARGV[i + 2]
    end
  end
  replies[#replies + 1] = reply
end

if #orders > 0 then
  may('RPUSH', KEYS[2], '')
  may('HSET', KEYS[1], '', '')
  may('HINCRBY', KEYS[1], '', 0)
  for key, kept in pairs(keyed) do
    redis.call('SET', key, kept, 'PX', ARGV[1])
  end
  for i = 1, #orders, 1000 do -- unpack has a limit
    redis.call('RPUSH', KEYS[2], unpack(orders, i, math.min(i + 999, #orders)))
  end
  redis.call('HSET', KEYS[1], 'quantity', string.format('%.0f', left), 'guard', guard, 'fence', fence,
    'version', version)
  redis.call('HINCRBY', KEYS[1], 'sold', string.format('%.0f', had - left))
end
return {'ok', epoch, replies}
