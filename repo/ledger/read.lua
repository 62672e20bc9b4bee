-- Read everything that a batch of steps needs, at one moment. Nothing is written.
-- KEYS stock:{sku} of each SKU; for each customer the hash of the SKU's customers; if there are holders, the ids of all
-- open reservations, and for each holder the hash of the customer's open reservations; then the keys of texts:
-- idempotency keys, orders and reservations
-- ARGV[1] number of SKUs   [2] number of customers   [3] number of holders   then the customers
-- Returns the time of this server in seconds and microseconds; the fields of each SKU; the units of each customer; for
-- each holder the number of open reservations and their units; the texts. "" stands for what does not exist.
local time = redis.call('TIME')
local reply = {'ok', time[1], time[2]}
local skus, customers, holders = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
for i = 1, skus do
  local s = redis.call('HMGET', KEYS[i], 'quantity', 'initial', 'sold', 'version', 'epoch', 'fence', 'guard',
    'reserved', 'adjusted', 'number', 'per_customer')
  for j = 1, 11 do
    s[j] = s[j] or ''
  end
  reply[#reply + 1] = s
end
for i = 1, customers do
  reply[#reply + 1] = redis.call('HGET', KEYS[skus + i], ARGV[3 + i]) or ''
end
local last = skus + customers
if holders > 0 then
  local due = last + 1
  last = due + holders
  for i = due + 1, last do
    local held, open, units = redis.call('HGETALL', KEYS[i]), 0, 0
    for j = 1, #held, 2 do
      if redis.call('ZSCORE', KEYS[due], held[j]) then
        open, units = open + 1, units + held[j + 1]
      end
    end
    reply[#reply + 1] = {tostring(open), string.format('%.0f', units)}
  end
end
for i = last + 1, #KEYS do
  reply[#reply + 1] = redis.call('GET', KEYS[i]) or ''
end
return reply
