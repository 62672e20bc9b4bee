-- Set the quantity to ARGV[7], and record the order ARGV[8]. With a version in ARGV[10] this is Swap, and is refused
-- unless the stock has that version. With "" it is the blind Write.
if ARGV[10] ~= '' and ARGV[10] ~= version then
  return {'changed'}
end
return record(ARGV[7], ARGV[8]) or {'ok'}
