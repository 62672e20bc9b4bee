package scenario

import (
	"slices"
	"time"

	"example.com/stock/lab"
)

// leaseTime is the variant of Redisson's tryLock(waitTime, leaseTime), which many believe to be renewed. Its manual
// says otherwise: https://redisson.pro/docs/data-and-services/locks-and-synchronizers/.
const leaseTime = "a-lease-time-ignores-the-loss"

func leaseShorterThanWork() lab.Scenario {
	return lab.Scenario{
		Name: "lease-shorter-than-work", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: slices.Concat(
			lab.Cases(heedsLoss, "redis-setnx", "redis-setnx-expire", "redis-setnx-watch"),
			lab.Cases(ignoresLoss, "redis-setnx", "redis-setnx-expire", "redis-setnx-del", "redis-setnx-watch"),
			lab.Cases(noFence, "redis-setnx"),
			lab.Stated(lab.Safe, renews, "redis-rlock", "redis-watchdog", "zk-sequential"),
			lab.Cases(leaseTime, "redis-rlock"),
		),
		Predict: lateWriter,
		Together: func(beds []*lab.Testbed) []lab.Outcome {
			env := []string{
				"STOCK_LOCK_SETNX_LEASE=1s", "STOCK_LOCK_WATCHDOG_LEASE=4s", "STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s",
			}
			for _, b := range beds {
				var apps []*lab.App
				wait := lab.Patience
				switch b.Case.Variant {
				case leaseTime:
					apps = b.Apps(2, "STOCK_LOCK_LEASE_TIME=3s")
				case renews:
					apps, wait = b.Apps(2, env...), 6*time.Second // longer than the lease
				default:
					apps = b.Apps(2, env...)
				}
				b.Stock(1)
				b.Watch(apps[1])
				b.Begin(apps[0], "A", lateRequest(b.Case.Variant)).Paused(lab.BeforeWrite)
				b.Begin(apps[1], "B", lab.Request{Wait: &wait})
			}
			return lab.Each(beds, afterTheLease)
		},
	}
}
