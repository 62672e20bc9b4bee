-- Deduct computes what is left from what is there. ARGV[7] is the order as JSON, without its opening brace: what was
-- read and written is put in front.
local left = tonumber(quantity) - tonumber(ARGV[4])
if left < 0 then
  return {'sold out', quantity}
end
local remaining = string.format('%.0f', left)
local seen = '{"read":' .. quantity .. ',"remaining":' .. remaining .. ',"version":' .. version ..
  ',"epoch":' .. epoch .. ','
return record(remaining, seen .. ARGV[7]) or {'ok', quantity, remaining, version, epoch}
