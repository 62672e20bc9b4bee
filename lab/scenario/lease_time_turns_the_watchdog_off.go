package scenario

import (
	"slices"
	"time"

	"example.com/stock/lab"
)

// noLeaseTime is the variant that keeps the watchdog.
const noLeaseTime = "no-lease-time"

// leaseTime is Redisson's tryLock(waitTime, leaseTime), which many believe to be renewed. Its manual says otherwise:
// https://redisson.pro/docs/data-and-services/locks-and-synchronizers/.
func leaseTime() lab.Scenario {
	return lab.Scenario{
		Name: "lease-time-turns-the-watchdog-off", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: slices.Concat(
			lab.Stated(lab.Safe, noLeaseTime, "redis-rlock", "redis-watchdog"),
			lab.Cases(heedsLoss, "redis-rlock", "redis-watchdog"),
			lab.Cases(ignoresLoss, "redis-rlock", "redis-watchdog"),
			lab.Cases(noFence, "redis-watchdog"),
		),
		Predict: lateWriter,
		Together: func(beds []*lab.Testbed) []lab.Observation {
			second := make([]*lab.App, len(beds))
			for i, b := range beds {
				env := "STOCK_LOCK_LEASE_TIME=3s"
				if b.Case.Variant == noLeaseTime {
					env = "STOCK_LOCK_WATCHDOG_LEASE=3s"
				}
				apps := b.Apps(2, env)
				second[i] = apps[1]
				b.Stock(1)
				b.Watch(apps[1])
				b.Begin(apps[0], "A", lateRequest(b.Case.Variant)).Paused(lab.BeforeWrite)
			}
			for i, b := range beds {
				wait := lab.Patience
				if b.Case.Variant == noLeaseTime {
					wait = 6 * time.Second // twice the lease
				}
				b.Begin(second[i], "B", lab.Request{Wait: &wait})
			}
			return lab.Each(beds, afterTheLease)
		},
	}
}
