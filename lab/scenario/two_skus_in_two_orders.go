package scenario

import (
	"context"
	"time"

	"example.com/stock/lab"
)

func abba() lab.Scenario {
	return lab.Scenario{
		Name: "two-skus-in-two-orders", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Aborts, "row-locks"),
			byHand("fixed", lab.Safe, "row-locks-sorted"),
			byHand("naive", lab.Blocks, "redis-locks"),
			byHand("fixed", lab.Safe, "redis-locks-sorted"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			switch b.Case.Variant {
			case "row-locks", "row-locks-sorted":
				return abbaRows(b, b.Case.Code == "fixed")
			default:
				return abbaKeys(b, b.Case.Code == "fixed")
			}
		},
	}
}

func abbaRows(b *lab.Testbed, sorted bool) lab.Outcome {
	db := newTables(b, "stock (sku INT PRIMARY KEY, quantity INT NOT NULL)")
	b.Exec("mysql", db, "INSERT INTO stock VALUES (1, 10), (2, 10)")
	const take = "UPDATE stock SET quantity = quantity - 1 WHERE sku = ?"
	a, other := newSession(b, db, "A"), newSession(b, db, "B")
	a.do("BEGIN")
	other.do("BEGIN")
	a.do(take, 1)
	if sorted {
		waits := other.inBackground(take, 1)
		other.waiting(db)
		a.do(take, 2)
		a.do("COMMIT")
		b.Must("B: "+take, <-waits)
		other.do(take, 2)
		other.do("COMMIT")
	} else {
		other.do(take, 2)
		waits := a.inBackground(take, 2)
		a.waiting(db)
		err := other.try(take, 1)
		b.Evidence(lab.Answer, errDeadlock, "one-was-undone", "error", oneAborted(b, err, <-waits))
		for _, s := range []*session{a, other} {
			s.do("COMMIT") // one of them has nothing left to commit
		}
	}
	left := b.Int("mysql", db, "SELECT SUM(quantity) FROM stock")
	b.Evidence(lab.Balance, left, "left-of-20", "left", left)
	if left == 18 {
		return lab.Aborts
	}
	b.Require(left == 16, "both carts were sold")
	return lab.Safe
}

// abbaKeys uses locks that are not renewed and outlive every wait, so that no wait ends because a lock expires.
func abbaKeys(b *lab.Testbed, sorted bool) lab.Outcome {
	lock := func(who, sku string) *naiveLock {
		l := newNaiveLock(b, who, longLease)
		l.key = b.SKU + "-" + sku
		return l
	}
	type cart struct {
		who           string
		first, second *naiveLock
	}
	carts := []*cart{
		{"A", lock("A", "1"), lock("A", "2")},
		{"B", lock("B", "2"), lock("B", "1")},
	}
	if sorted {
		carts[1].first, carts[1].second = carts[1].second, carts[1].first
	}
	enough := 2 * time.Second
	if sorted {
		enough = lab.Patience
	}
	ctx, stop := context.WithTimeout(b.Ctx, enough)
	defer stop()
	carts[0].first.mustTake()
	b.Require(carts[1].first.takes() != sorted, "B gets its first key, unless A has it")
	inside := make(chan bool, 2)
	for i, c := range carts {
		b.Go(func(context.Context) {
			both := true
			if sorted && i == 1 {
				both, _ = c.first.lock(ctx)
			}
			if both {
				both, _ = c.second.lock(ctx)
			}
			b.Note(c.who, "has-both", "both", both)
			if both {
				_ = c.second.unlock(b.Ctx)
				_ = c.first.unlock(b.Ctx)
			}
			inside <- both
		})
	}
	served := 0
	for range carts {
		if <-inside {
			served++
		}
	}
	b.Evidence(lab.Answer, served, "carts-served", "served", served)
	if served == 0 {
		b.Evidence(lab.Served, nil, "both-keys-are-held", "rest", b.TTL(carts[0].first.key).Round(time.Second))
		return lab.Blocks
	}
	b.Require(served == 2, "both carts are served")
	return lab.Safe
}
