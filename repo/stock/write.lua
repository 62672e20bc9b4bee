-- Write is blind: the quantity becomes ARGV[7] whatever it is now. ARGV[8] is the order. With a version in ARGV[10] it
-- is Swap, which is refused unless the stock has that version.
if ARGV[10] ~= '' and ARGV[10] ~= version then
  return {'changed'}
end
return record(ARGV[7], ARGV[8]) or {'ok'}
