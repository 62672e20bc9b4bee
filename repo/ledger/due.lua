-- Return the ids of held reservations that have expired, the earliest first. Nothing is written.
-- KEYS[1] ids by when they expire, in microseconds   ARGV[1] how many to leave out   ARGV[2] how many at most
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1e6 + time[2])
return {'ok', redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', ARGV[1], ARGV[2])}
