-- Write a step, if everything that it has read is as it was.
-- ARGV[1] until when, in microseconds by the clock of this server   [2] number of checks
-- then each check: what, number of its key, values; and each command: number of its arguments, name, number of its key,
-- the rest. Numbers of keys are indexes of KEYS.
--
-- A script is not undone when it fails half way: so the types of all keys are known before the first write, and a
-- stream must end with the movement that the next one follows. A check that reads a key of another type fails.
local time = redis.call('TIME')
if time[1] * 1e6 + time[2] > tonumber(ARGV[1]) then
  return {'changed'}
end

local known = {} -- by key: it has that type, or is not there
local i = 3
for _ = 1, tonumber(ARGV[2]) do
  local what, key = ARGV[i], KEYS[tonumber(ARGV[i + 1])]
  i = i + 2
  if what == 'stock' then -- epoch, version, guard, fence; "" for what is not there
    local s = redis.call('HMGET', key, 'epoch', 'version', 'guard', 'fence')
    for j = 1, 4 do
      if (s[j] or '') ~= ARGV[i + j - 1] then
        return {'changed'}
      end
    end
    known[key] = 'hash'
    i = i + 4
  elseif what == 'text' then -- its digest, "" for none
    local text = redis.call('GET', key)
    if (text and redis.sha1hex(text) or '') ~= ARGV[i] then
      return {'changed'}
    end
    known[key] = 'string'
    i = i + 1
  elseif what == 'first' then -- the id of the first entry of a stream; the number of what is carried, and its key
    local first = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
    local carried = redis.call('HGET', KEYS[tonumber(ARGV[i + 1])], 'number')
    if (first and first[1] or '') ~= ARGV[i] or (carried or '') ~= ARGV[i + 2] then
      return {'changed'}
    end
    known[key] = 'stream'
    i = i + 3
  else -- "last": the id of the last entry of a stream, "" for none; the key of what is carried if all was archived
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
  SET = 'string', HSET = 'hash', HINCRBY = 'hash', XADD = 'stream', XTRIM = 'stream', ZADD = 'zset', ZREM = 'zset',
  RPUSH = 'list',
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
  i = i + 1 + tonumber(ARGV[i])
end
i = first
while i <= #ARGV do
  local n = tonumber(ARGV[i])
  redis.call(ARGV[i + 1], KEYS[tonumber(ARGV[i + 2])], unpack(ARGV, i + 3, i + n))
  i = i + 1 + n
end
return {'ok'}
