package scenario

import (
	"slices"

	"example.com/stock/lab"
)

func holderFrozen() lab.Scenario {
	return lab.Scenario{
		Name: "holder-frozen-past-lease", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL, lab.NeedRedlock},
		Cases: slices.Concat(
			lab.Cases(
				heedsLoss, "redis-setnx", "redis-rlock", "redis-watchdog", "zk-sequential", "redlock",
			),
			lab.Cases(
				ignoresLoss, "redis-setnx", "redis-setnx-expire", "redis-rlock", "redis-watchdog", "zk-sequential",
				"redlock", "mysql-table", "mysql-for-update", "mysql-get-lock",
			),
			lab.Cases(noFence, "redis-setnx", "redis-watchdog", "zk-sequential", "mysql-table"),
		),
		Predict: lateWriter,
		Together: func(beds []*lab.Testbed) []lab.Outcome {
			var apps []*lab.App
			for _, b := range beds {
				apps = b.Apps(
					2, "STOCK_LOCK_SETNX_LEASE=2s", "STOCK_LOCK_WATCHDOG_LEASE=2s",
					"STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s",
				)
				b.Stock(1)
				b.Watch(apps[1])
			}
			for _, b := range beds {
				b.Begin(apps[0], "A", lateRequest(b.Case.Variant)).Paused(lab.BeforeWrite)
			}
			thaw := lab.FreezeFor(beds, apps[0])
			for _, b := range beds {
				b.Begin(apps[1], "B", lab.Request{Wait: lab.For(lab.Patience)})
			}
			for _, b := range beds {
				next := b.Calls()[1]
				next.Reply()
				b.Evidence(lab.Waited, next.Took(), "let-in-after-freeze", "after", next.Took())
			}
			thaw()
			return lab.Each(beds, func(b *lab.Testbed) lab.Outcome {
				a := b.Calls()[0]
				if b.Case.Variant != heedsLoss {
					a.Go()
				}
				return lateVerdict(b, a)
			})
		},
	}
}
