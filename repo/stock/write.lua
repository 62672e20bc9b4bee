-- Set the quantity to ARGV[7], and record the order ARGV[8]. With a version in ARGV[10] this is Swap, and is refused
-- unless the stock has that version and the quantity ARGV[13]. With "" it is the blind Write. A replica that has missed
-- writes may have the same version with another quantity.
if ARGV[10] ~= '' and (ARGV[10] ~= version or ARGV[13] ~= quantity) then
  return {'changed'}
end
return record(ARGV[7], ARGV[8]) or {'ok'}
