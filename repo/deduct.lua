-- Deduct computes what is left from what is there. ARGV[5] is the order as JSON, without its opening brace: what was read and
-- written is put in front.
local left = tonumber(quantity) - tonumber(ARGV[4])
if left < 0 then
  return {'sold out', quantity}
end
local remaining = string.format('%.0f', left)
record(remaining, '{"read":' .. quantity .. ',"remaining":' .. remaining .. ',"version":' .. version .. ',"epoch":' .. epoch .. ',' .. ARGV[5])
return {'ok', quantity, remaining, version, epoch}
