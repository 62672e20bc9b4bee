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
		),
		Run: func(b *lab.Testbed) lab.Outcome {
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
				return lab.Duplicates
			}
			return lab.Safe
		},
	}
}
