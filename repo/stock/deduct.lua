-- Deduct subtracts from the present quantity. ARGV[7] is the order as JSON without its opening brace; the script
-- prepends the numbers that it has read and computed.
local left = tonumber(quantity) - tonumber(ARGV[4])
if left < 0 then
  return {'sold out', quantity}
end
local remaining = string.format('%.0f', left)
local seen = '{"read":' .. quantity .. ',"remaining":' .. remaining .. ',"version":' .. version ..
  ',"epoch":' .. epoch .. ','
return record(remaining, seen .. ARGV[7]) or {'ok', quantity, remaining, version, epoch}
