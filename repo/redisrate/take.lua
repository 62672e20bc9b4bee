-- Decide on a request of one customer, by GCRA: see package ratelimit.
-- KEYS[1] until when the admitted requests are paid for, in microseconds by the clock of this server
-- ARGV[1] microseconds for each request   [2] microseconds for a whole burst
-- Returns 1 if the request is admitted, and for how many microseconds the admitted ones are paid for.
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
local paid = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now)
local after = paid + ARGV[1]
if after - now > tonumber(ARGV[2]) then
  return {'ok', '0', string.format('%.0f', paid - now)}
end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000))
return {'ok', '1', string.format('%.0f', after - now)}
