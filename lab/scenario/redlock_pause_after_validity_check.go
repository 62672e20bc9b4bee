package scenario

import "example.com/stock/lab"

func redlockPauseAfterCheck() lab.Scenario {
	return lab.Scenario{
		Name: "redlock-pause-after-validity-check", Group: lab.Redlock,
		Needs:   []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedRedlock},
		Cases:   lab.Cases(ignoresLoss, "redlock", "redis-setnx", "redis-watchdog", "zk-sequential"),
		Predict: fenced,
		Together: func(beds []*lab.Testbed) []lab.Outcome {
			var apps []*lab.App
			for _, b := range beds {
				apps = b.Apps(
					1, "STOCK_REDLOCK_LEASE=2s", "STOCK_LOCK_SETNX_LEASE=2s", "STOCK_LOCK_WATCHDOG_LEASE=2s",
					"STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s",
				)
				apps = append(apps, b.Apps(1)...) // with longer leases, so that B does not lose its lock
				b.Stock(1)
				b.Watch(apps[1])
			}
			for _, b := range beds {
				b.BeginPaused(apps[0], "A", lab.AfterLock, lab.Request{IgnoreLoss: true})
			}
			thaw := lab.FreezeFor(beds, apps[0])
			for _, b := range beds {
				b.Begin(apps[1], "B", lab.Request{Pause: []string{lab.BeforeWrite}, Wait: lab.For(lab.Patience)})
			}
			for _, b := range beds {
				b.Calls()[1].Paused(lab.BeforeWrite)
			}
			thaw()
			return lab.Each(beds, func(b *lab.Testbed) lab.Outcome {
				b.Calls()[0].Go().Reply()
				b.Calls()[1].Go()
				switch j := b.Judge(); {
				case j.Lost():
					return lab.Oversells
				case j.Failed > 0:
					return lab.Refuses
				default:
					return lab.Safe
				}
			})
		},
	}
}
