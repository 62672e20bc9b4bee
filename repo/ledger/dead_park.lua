-- Keep a dead letter, ARGV[2] in JSON, in field ARGV[1] of the hash KEYS[1], with the time of this server.
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], ARGV[1], string.format('%s%06d %s', now[1], now[2], ARGV[2]))
return {'ok'}
