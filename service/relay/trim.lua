-- Removes the entries of stream KEYS[1] that every group has taken and acknowledged, and returns their number. An entry
-- that is removed while a consumer has it pending can never be claimed: so the bound of a group is its oldest pending
-- entry, or what follows the last that it was given. The last entry stays: it tells a repeat of what was removed from
-- an event of a ledger that was restored. Ids are <number>-0.
local function number(id)
  return tonumber(string.match(id, '^%d+'))
end
local oldest
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local field = {}
  for i = 1, #group, 2 do
    field[group[i]] = group[i + 1]
  end
  local first = number(field['last-delivered-id']) + 1
  if field['pending'] > 0 then
    first = number(redis.call('XPENDING', KEYS[1], field['name'])[2])
  end
  if not oldest or first < oldest then
    oldest = first
  end
end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if not oldest or not last then
  return 0
end
oldest = math.min(oldest, number(last[1]))
return redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f-0', oldest))
