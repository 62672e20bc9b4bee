package scenario

import (
	"slices"
	"time"

	"example.com/stock/lab"
)

func leaseShorterThanWork() lab.Scenario {
	return lab.Scenario{
		Name: "lease-shorter-than-work", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: slices.Concat(
			lab.Cases(heedsLoss, "redis-setnx", "redis-setnx-expire", "redis-setnx-watch"),
			lab.Cases(ignoresLoss, "redis-setnx", "redis-setnx-expire", "redis-setnx-del", "redis-setnx-watch"),
			lab.Cases(noFence, "redis-setnx"),
			[]lab.Case{
				{Strategy: "redis-rlock", Variant: renews, Want: lab.Forecast{Outcome: lab.Safe}},
				{Strategy: "redis-watchdog", Variant: renews, Want: lab.Forecast{Outcome: lab.Safe}},
				{Strategy: "zk-sequential", Variant: renews, Want: lab.Forecast{Outcome: lab.Safe}},
			}),
		Predict: lateWriter,
		Together: func(beds []*lab.Testbed) []lab.Observation {
			var apps []*lab.App
			for _, b := range beds {
				apps = b.Apps(
					2, "STOCK_LOCK_SETNX_LEASE=1s", "STOCK_LOCK_WATCHDOG_LEASE=4s",
					"STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s",
				)
				b.Stock(1)
				b.Watch(apps[1])
			}
			for _, b := range beds {
				b.Begin(apps[0], "A", lateRequest(b.Case.Variant)).Paused(lab.BeforeWrite)
				wait := lab.Patience
				if b.Case.Variant == renews {
					wait = 6 * time.Second // longer than the lease
				}
				b.Begin(apps[1], "B", lab.Request{Wait: &wait})
			}
			return lab.Each(beds, afterTheLease)
		},
	}
}
