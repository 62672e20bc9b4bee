package scenario

import (
	"time"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/server"
)

func redlockClockJump() lab.Scenario {
	return lab.Scenario{
		Name: "redlock-clock-jump", Group: lab.Redlock,
		Needs:   []lab.Need{lab.NeedRedis, lab.NeedRedlock, lab.NeedClocks},
		Cases:   lab.Cases("", "redlock", "redis-watchdog"),
		Predict: fenced,
		Run: func(b *lab.Testbed) lab.Outcome {
			const ahead = 2 * time.Minute
			b.Fresh(server.Options{Clocks: true}, lab.NeedRedis, lab.NeedRedlock)
			apps := b.Apps(2, "STOCK_REDLOCK_LEASE=60s", "STOCK_LOCK_WATCHDOG_LEASE=60s")
			b.Stock(1)
			var jump func()
			r := lab.Request{Pause: []string{lab.BeforeWrite}, IgnoreLoss: true}
			var a *lab.Call
			if b.Case.Strategy == "redlock" {
				nodes := newNodes(b)
				unblock := nodes.block(3, 4)
				a = b.Begin(apps[0], "A", r).Paused(lab.BeforeWrite)
				unblock()
				nodes.holders("nodes-with-a")
				jump = func() { nodes.jump(2, ahead); nodes.holders("nodes-after-the-jump") }
			} else {
				b.Watch(apps[1])
				a = b.Begin(apps[0], "A", r).Paused(lab.BeforeWrite)
				key := lockKey(b.Case.Strategy, b.SKU)
				jump = func() {
					b.TTL(key)
					jumpClock(b, "redis", b.Server(lab.NeedRedis), ahead)
					b.Eventually("the key has expired", func() bool { return b.Redis().Exists(b.Ctx, key).Val() == 0 })
				}
			}
			jump()
			b.Sell(apps[1], "B", lab.Request{Wait: lab.For(lab.Patience)})
			a.Go()
			return lateVerdict(b, a)
		},
	}
}
