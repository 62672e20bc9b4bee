-- What a step reads, all as it was at one moment. It writes nothing.
-- KEYS[1], [2] stock:{sku} and what its customers have, of each SKU; the last three: the idempotency key, the order,
-- the reservation
-- ARGV[1] customer
-- Returns the time of this server in seconds and microseconds; the texts of the last three keys, "" for none; then for
-- each SKU its fields, "" for those that are not there.
local time = redis.call('TIME')
local reply = {'ok', time[1], time[2]}
for i = #KEYS - 2, #KEYS do
  reply[#reply + 1] = redis.call('GET', KEYS[i]) or ''
end
for i = 1, #KEYS - 3, 2 do
  local s = redis.call('HMGET', KEYS[i], 'quantity', 'initial', 'sold', 'version', 'epoch', 'fence', 'guard',
    'reserved', 'adjusted', 'number', 'per_customer')
  s[#s + 1] = redis.call('HGET', KEYS[i + 1], ARGV[1])
  for j = 1, 12 do
    s[j] = s[j] or ''
  end
  reply[#reply + 1] = s
end
return reply
