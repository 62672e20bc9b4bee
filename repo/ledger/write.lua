-- Write a step if nothing that it has read has changed.
-- ARGV[1] deadline of the write, in microseconds by the clock of this server   [2] number of checks
-- then for each check: its kind, the index of its key in KEYS, values; then for each command: the number of its
-- arguments, its name, the index of its key in KEYS, the other arguments
--
-- Redis does not undo a script that fails half way. So all checks come before the first write: each key must be of the
-- type that is written, and a stream must end with the movement before the new one.
local time = redis.call('TIME')
if time[1] * 1e6 + time[2] > tonumber(ARGV[1]) then
  return {'changed'}
end

local known = {} -- by key: the type that it has if it exists
local i = 3
for _ = 1, tonumber(ARGV[2]) do
  local what, key = ARGV[i], KEYS[tonumber(ARGV[i + 1])]
  i = i + 2
  if what == 'stock' then -- values: epoch, version, guard, fence; "" for none
    local s = redis.call('HMGET', key, 'epoch', 'version', 'guard', 'fence')
    for j = 1, 4 do
      if (s[j] or '') ~= ARGV[i + j - 1] then
        return {'changed'}
      end
    end
    known[key] = 'hash'
    i = i + 4
  elseif what == 'held' then -- values: key of the ids of all open reservations; number and units of the customer's
    local held, open, units = redis.call('HGETALL', key), 0, 0
    for j = 1, #held, 2 do
      if redis.call('ZSCORE', KEYS[tonumber(ARGV[i])], held[j]) then
        open, units = open + 1, units + held[j + 1]
      end
    end
    if open ~= tonumber(ARGV[i + 1]) or units ~= tonumber(ARGV[i + 2]) then
      return {'changed'}
    end
    known[key] = 'hash'
    i = i + 3
  elseif what == 'text' then -- value: the digest of the text, "" for none
    local text = redis.call('GET', key)
    if (text and redis.sha1hex(text) or '') ~= ARGV[i] then
      return {'changed'}
    end
    known[key] = 'string'
    i = i + 1
  elseif what == 'first' then -- values: id of the stream's first entry; key and number of the carried movement
    local first = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
    local carried = redis.call('HGET', KEYS[tonumber(ARGV[i + 1])], 'number')
    if (first and first[1] or '') ~= ARGV[i] or (carried or '') ~= ARGV[i + 2] then
      return {'changed'}
    end
    known[key] = 'stream'
    i = i + 3
  else -- "last"; values: id of the stream's last entry, "" for none; key of the carried movement, if all is archived
    local last = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
    local carried = not last and redis.call('HGET', KEYS[tonumber(ARGV[i + 1])], 'number')
    if (last and last[1] or carried and carried .. '-0' or '') ~= ARGV[i] then
      return {'no movements', key}
    end
    known[key] = 'stream'
    i = i + 2
  end
end

local types = {
  SET = 'string', HSET = 'hash', HDEL = 'hash', HINCRBY = 'hash', XADD = 'stream', XTRIM = 'stream', ZADD = 'zset',
  ZREM = 'zset', RPUSH = 'list',
}
local first = i
while i <= #ARGV do
  local type, key = types[ARGV[i + 1]], KEYS[tonumber(ARGV[i + 2])]
  if type and known[key] ~= type then
    local is = redis.call('TYPE', key).ok
    if is ~= 'none' and is ~= type then
      return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. is .. ', not a ' .. type)
    end
    known[key] = type
  end
  may(ARGV[i + 1], KEYS[tonumber(ARGV[i + 2])], unpack(ARGV, i + 3, i + tonumber(ARGV[i])))
  i = i + 1 + tonumber(ARGV[i])
end
i = first
while i <= #ARGV do
  local n = tonumber(ARGV[i])
  redis.call(ARGV[i + 1], KEYS[tonumber(ARGV[i + 2])], unpack(ARGV, i + 3, i + n))
  i = i + 1 + n
end
return {'ok'}
