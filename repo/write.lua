-- Write is blind: the quantity becomes ARGV[5] whatever it is now. ARGV[6] is the order. With a version in ARGV[8] it is Swap, and
-- wants to find that.
if ARGV[8] ~= '' and ARGV[8] ~= version then
  return {'changed'}
end
record(ARGV[5], ARGV[6])
return {'ok'}
