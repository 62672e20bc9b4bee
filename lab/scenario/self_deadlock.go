package scenario

import (
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func selfDeadlock() lab.Scenario {
	return lab.Scenario{
		Name: "self-deadlock", Group: lab.Fairness,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL, lab.NeedRedlock},
		Cases: slices.Concat(
			lab.Cases(
				"as-its-holder", "local-mutex", "redis-setnx", "redis-rlock", "redis-watchdog", "redlock",
				"zk-sequential", "mysql-table", "mysql-for-update", "mysql-get-lock",
			),
			lab.Cases(
				"as-a-stranger", "none", "local-mutex", "redis-setnx", "redis-rlock", "redis-watchdog", "redlock",
				"zk-sequential", "mysql-table", "mysql-for-update", "mysql-get-lock",
			),
		),
		Predict: func(c lab.Case, p lab.StrategyPromise) lab.Forecast {
			switch {
			case !p.Exclusive:
				return lab.Forecast{Outcome: lab.Safe, From: "exclusive: false"}
			case c.Variant == "as-a-stranger":
				return lab.Forecast{Outcome: lab.Blocks, From: "exclusive"}
			case p.Reentrant:
				return lab.Forecast{Outcome: lab.Safe, From: "reentrant"}
			default:
				return lab.Forecast{Outcome: lab.Blocks, From: "reentrant: false"}
			}
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			app := b.Apps(1)[0]
			b.Stock(1)
			nested := "holder"
			if b.Case.Variant == "as-a-stranger" {
				nested = "stranger"
			}
			a := b.Begin(app, "A", lab.Request{Nested: nested, Wait: lab.For(time.Second)})
			reply := a.Reply()
			b.Evidence(lab.Waited, a.Took(), "answered-after", "after", a.Took())
			if reply.Outcome == loadtest.Busy {
				b.Sell(app, "B", lab.Request{})
				b.Judge()
				return lab.Blocks
			}
			b.Judge()
			return lab.Safe
		},
	}
}
