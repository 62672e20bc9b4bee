-- Sells over HTTP with wrk, and counts the replies by their meaning. wrk by itself would count sold out and busy as
-- errors.
--
--   stock verdict --sku stock --set 100
--   wrk -t2 -c30 -d5s -s loadtest/wrk/deduct_stock.lua 'http://localhost:8080/deduct_stock?sku=stock' >wrk.txt
--   stock verdict --sku stock --from wrk.txt
--
-- wrk runs for a fixed time, and cuts off the requests in flight at its end: up to one order for each connection may
-- have no counted reply.

wrk.method = "POST"

local threads = {}

-- Every thread has a Lua state of its own: what it counts is read from outside when all is done.
function setup(thread)
  table.insert(threads, thread)
end

function init()
  accepted, sold_out, busy, other = 0, 0, 0, 0
end

function response(status)
  if status == 200 then
    accepted = accepted + 1
  elseif status == 409 then
    sold_out = sold_out + 1
  elseif status == 503 then
    busy = busy + 1
  else
    other = other + 1
  end
end

function done(summary)
  local function sum(name)
    local n = 0
    for _, thread in ipairs(threads) do
      n = n + thread:get(name)
    end
    return n
  end
  io.write("\n")
  io.write(string.format("accepted  %d\n", sum("accepted")))
  io.write(string.format("sold out  %d\n", sum("sold_out")))
  io.write(string.format("busy      %d\n", sum("busy")))
  io.write(string.format("other     %d\n", sum("other")))
  local e = summary.errors
  io.write(string.format("no reply  %d\n", e.connect + e.read + e.write + e.timeout))
end
