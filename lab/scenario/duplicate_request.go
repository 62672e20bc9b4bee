package scenario

import (
	"slices"

	"example.com/stock/lab"
)

// withAKey is the variant in which both requests carry one idempotency key.
const withAKey = "with-a-key"

// askTwice has the strategies that are tested without a key and with one.
var askTwice = []string{
	"none", "redis-setnx", "redis-watchdog", "zk-sequential", "pessimistic", "optimistic", "atomic",
	"merged",
}

func duplicateRequest() lab.Scenario {
	return lab.Scenario{
		Name:  "duplicate-request",
		Group: lab.NoLock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL},
		Cases: slices.Concat(
			lab.Stated(lab.Duplicates, "", askTwice...),
			lab.Stated(lab.Safe, withAKey, askTwice...),
			[]lab.Case{byHand("fixed", lab.Safe, "a-key-unique-in-the-orders")},
		),
		Run: func(b *lab.Testbed) lab.Observation {
			if b.Case.Code != "" {
				return sellOnce(b)
			}
			apps := b.Apps(2)
			b.Stock(2)
			var r lab.Request
			if b.Case.Variant == withAKey {
				r.Key = b.SKU + ".1"
			}
			b.BeginPaused(apps[0], "A", lab.AfterUnlock, r).Leave()
			b.Sell(apps[1], "again", r)
			j := b.Judge()
			for i, o := range j.Orders {
				b.Evidence(lab.Answer, o.OrderID, "order-of-one", "n", i+1, "order", o.OrderID, "read", o.Read, "left",
					o.Remaining)
			}
			if len(j.Orders) > 1 {
				return lab.Duplicates.Seen()
			}
			return lab.Safe.Seen()
		},
	}
}

// sellOnce writes the customer's key with the order. The database refuses a second order with the same key and thereby
// also its deduction, because both are in one transaction.
func sellOnce(b *lab.Testbed) lab.Observation {
	db := newTables(b, stockTable, "orders (id INT AUTO_INCREMENT PRIMARY KEY, request VARCHAR(64) NOT NULL UNIQUE)")
	b.Exec("mysql", db, "INSERT INTO stock VALUES ('sku', 2)")
	a := newSession(b, db, "A")
	for _, what := range []string{"asks", "asks-again"} {
		b.Note("A", what)
		a.do("BEGIN")
		a.do("UPDATE stock SET quantity = quantity - 1 WHERE sku = 'sku' AND quantity >= 1")
		if err := a.try("INSERT INTO orders (request) VALUES ('order of A')"); err != nil {
			b.Require(errno(err) == errDuplicate, "the second is refused with 1062")
			a.do("ROLLBACK")
			id := b.Int("A", db, "SELECT id FROM orders WHERE request = 'order of A'")
			b.Evidence(lab.Answer, id, "second-request-was-told", "error", err, "order", id)
			continue
		}
		a.do("COMMIT")
	}
	left, sold := b.Int("mysql", db, "SELECT quantity FROM stock"), b.Int("mysql", db, "SELECT COUNT(*) FROM orders")
	b.Evidence(lab.Balance, left, "balance", "initial", 2, "sold", sold, "left", left)
	if sold == 1 && left == 1 {
		return lab.Safe.Seen()
	}
	return lab.Duplicates.Seen()
}
