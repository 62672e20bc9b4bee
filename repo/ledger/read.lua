-- Read everything that a batch of steps needs, at one moment. Nothing is written.
-- KEYS stock:{sku} of each SKU; for each customer the hash of the SKU's customers; then the keys of texts: idempotency
-- keys, orders and reservations
-- ARGV[1] number of SKUs   [2] number of customers   then the customers
-- Returns the time of this server in seconds and microseconds; the fields of each SKU; the units of each customer; the
-- texts. "" stands for what does not exist.
local time = redis.call('TIME')
local reply = {'ok', time[1], time[2]}
local skus, customers = tonumber(ARGV[1]), tonumber(ARGV[2])
for i = 1, skus do
  local s = redis.call('HMGET', KEYS[i], 'quantity', 'initial', 'sold', 'version', 'epoch', 'fence', 'guard',
    'reserved', 'adjusted', 'number', 'per_customer')
  for j = 1, 11 do
    s[j] = s[j] or ''
  end
  reply[#reply + 1] = s
end
for i = 1, customers do
  reply[#reply + 1] = redis.call('HGET', KEYS[skus + i], ARGV[2 + i]) or ''
end
for i = skus + customers + 1, #KEYS do
  reply[#reply + 1] = redis.call('GET', KEYS[i]) or ''
end
return reply
