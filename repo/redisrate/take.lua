-- Decide on a request of one customer, by GCRA: see package ratelimit. All policies must admit it.
-- KEYS[i] until when the admitted requests of policy i are paid for, in microseconds by the clock of this server
-- ARGV[2i-1] microseconds for each request   [2i] microseconds for a whole burst
-- Returns for how many microseconds from now the requests before this one are paid for, by each policy.
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
local admitted, reply, after = true, {'ok'}, {}
for i, key in ipairs(KEYS) do
  local debt = math.max(tonumber(redis.call('GET', key) or '0') - now, 0)
  reply[i + 1] = string.format('%.0f', debt)
  after[i] = debt + ARGV[2 * i - 1]
  admitted = admitted and after[i] <= tonumber(ARGV[2 * i])
end
if admitted then
  for i, key in ipairs(KEYS) do
    redis.call('SET', key, string.format('%.0f', now + after[i]), 'PX', math.ceil(after[i] / 1000))
  end
end
return reply
