package scenario

import (
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// fenceCounterLost is known from the FencedLock of Redisson, whose counter is a key without an expiry beside the lock:
// https://github.com/redisson/redisson/issues/6510.
func fenceCounterLost() lab.Scenario {
	const sales = 3 // before the counter is lost, and again after
	return lab.Scenario{
		Name: "fence-counter-lost", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL, lab.NeedRedlock},
		Cases: on("mysql", slices.Concat(
			[]lab.Case{
				{Code: "naive", Variant: "counts-with-incr", Want: lab.Forecast{Outcome: lab.Blocks}},
				{Code: "fixed", Variant: "the-clock-or-one-more", Want: lab.Forecast{Outcome: lab.Safe}},
			},
			lab.Stated(lab.Safe, "", "redis-setnx", "redis-watchdog"),
		)),
		Run: func(b *lab.Testbed) lab.Observation {
			// Node 1 of Redlock has the locks, because other scenarios need the keys of the first Redis.
			nodes := newNodes(b)
			var sell func(who string) bool
			if b.Case.Code != "" {
				sell = newFencedShop(b, nodes.clients[0], 2*sales).sell
			} else {
				app := b.Apps(1, "STOCK_REDIS_URL=redis://"+nodes.servers[0].Addr)[0]
				b.Stock(2 * sales)
				sell = func(who string) bool { return b.Sell(app, who, lab.Request{}).Outcome == loadtest.Accepted }
			}
			for n := range sales {
				b.Require(sell(fmt.Sprintf("customer %d", n+1)), "all is well before the counter is lost")
			}
			nodes.flush(1)
			served := 0
			for n := range sales {
				if sell(fmt.Sprintf("customer %d", sales+n+1)) {
					served++
				}
			}
			b.Evidence(lab.Fence, served, "served-after-the-loss", "served", served, "asked", sales)
			if b.Case.Code == "" {
				b.Judge()
			}
			switch served {
			case sales:
				return lab.Safe.Seen()
			case 0:
				return lab.Blocks.Seen()
			}
			return lab.Refuses.Seen()
		},
	}
}

// A fencedShop has a correct lock with fencing tokens, and a table that refuses a token not larger than the last.
type fencedShop struct {
	b     *lab.Testbed
	locks *redis.Client
	table *session
}

func newFencedShop(b *lab.Testbed, locks *redis.Client, units int) *fencedShop {
	table := newSession(b, b.DB(), "mysql")
	table.do("CREATE TABLE stock " +
		"(sku VARCHAR(64) PRIMARY KEY, quantity INT NOT NULL, fence BIGINT NOT NULL) ENGINE=InnoDB")
	table.do(fmt.Sprintf("INSERT INTO stock VALUES ('sku', %d, 0)", units))
	return &fencedShop{b, locks, table}
}

// mint returns the next fencing token, in one step on the server.
func (s *fencedShop) mint() int64 {
	const count = `return redis.call('INCR', KEYS[1])`
	const clockOrMore = `local now = redis.call('TIME')
		local fence = now[1] * 1000000 + now[2]
		local last = tonumber(redis.call('GET', KEYS[1]) or '0')
		if last >= fence then fence = last + 1 end
		redis.call('SET', KEYS[1], string.format('%.0f', fence))
		return fence`
	script := count
	if s.b.Case.Code == "fixed" {
		script = clockOrMore
	}
	fence, err := s.locks.Eval(s.b.Ctx, script, []string{s.b.SKU + ":fence"}).Int64()
	s.b.Must("mint a fence", err)
	return fence
}

// sell sells one unit under the lock, and reports whether the table accepted the write.
func (s *fencedShop) sell(who string) bool {
	b := s.b
	l := newNaiveLock(s.locks, b.SKU, 2*lab.Patience)
	ok, err := l.try(b.Ctx)
	b.Must(who+": lock", err)
	b.Require(ok, who+" gets the lock")
	fence := s.mint()
	statement := fmt.Sprintf(
		"UPDATE stock SET quantity = quantity - 1, fence = %d WHERE sku = 'sku' AND fence < %d", fence, fence)
	result, err := s.table.ExecContext(b.Ctx, statement)
	b.Must(statement, err)
	rows, err := result.RowsAffected()
	b.Must("rows affected", err)
	b.Statement(who, fmt.Sprintf("%s: %d", statement, rows))
	b.Must("unlock", l.unlock(b.Ctx))
	return rows == 1
}
