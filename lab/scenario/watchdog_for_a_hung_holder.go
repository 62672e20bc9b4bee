package scenario

import (
	"fmt"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func hungHolder() lab.Scenario {
	const lease = 2 * time.Second
	return lab.Scenario{
		Name: "watchdog-for-a-hung-holder", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: append(lab.Stated(lab.Blocks, "no-budget", "redis-watchdog", "redis-rlock"),
			within(3*time.Second+lease, "redis-watchdog", "a-budget-of-3-s")),
		Run: func(b *lab.Testbed) lab.Outcome {
			env := []string{fmt.Sprintf("STOCK_LOCK_WATCHDOG_LEASE=%v", lease)}
			wait := 3 * lease
			if b.Case.Variant != "no-budget" {
				env, wait = append(env, "STOCK_LOCK_MAX_HOLD=3s"), lab.Patience
			}
			apps := b.Apps(2, env...)
			b.Stock(2)
			b.Watch(apps[1])
			a := b.BeginPaused(apps[0], "A", lab.BeforeWrite, lab.Request{IgnoreLoss: true})
			next := b.Begin(apps[1], "B", lab.Request{Wait: &wait})
			reply := next.Reply()
			b.TTL(lockKey(b.Case.Strategy, b.SKU))
			a.Go()
			late := a.Reply()
			if b.Judge().Lost() {
				return lab.Oversells
			}
			if reply.Outcome == loadtest.Busy {
				b.Evidence(lab.Waited, next.Took(), "gave-up", "after", next.Took())
				return lab.Blocks
			}
			b.Evidence(lab.Fence, nil, "wrote-late", "answer", lab.Told(late))
			return b.Delayed(next.Took())
		},
	}
}
