package lab

import (
	"fmt"
	"time"

	"example.com/stock/loadtest"
)

func hungHolder() Scenario {
	const lease = 2 * time.Second
	return Scenario{
		Name: "watchdog-for-a-hung-holder", Group: SetNX,
		Title: Text{"The watchdog keeps a hung holder's lock", "看门狗替挂死的持有者一直续期"},
		Setup: Text{
			"Two units in stock. The watchdog's lease is 2 s; the longest hold is 5 min, or 3 s where there is a budget.",
			"库存 2 件。看门狗租约 2 秒；最长持有 5 分钟，有预算的为 3 秒。",
		},
		Forced: Text{
			"A stands before its write and does not come back: a call without a time limit, a deadlock in the code. Its process lives, and so its watchdog renews. B waits.",
			"A 停在写入之前，不再返回：比如一次没有超时的调用，或代码里的死锁。它的进程还活着，所以看门狗继续续期。B 在等待。",
		},
		Why: Text{
			"A watchdog sees that the process lives, not that the work goes on. Redisson's and every other that was read renew for ever.",
			"看门狗只知道进程活着，不知道业务有没有进展。Redisson 以及读过的其他实现都会无限续期。",
		},
		Fix: Text{
			"A longest hold, after which the lease is not renewed and the work is told to stop; a fence, for work that does not listen.",
			"规定最长持有时间：超过就不再续期，并通知业务停止；对不听通知的业务，用栅栏令牌拒绝。",
		},
		Needs: []Need{NeedRedis},
		Cases: []Case{
			{Strategy: "redis-watchdog", Variant: "no budget", Want: Forecast{Outcome: Blocks}},
			{Strategy: "redis-watchdog", Variant: "a budget of 3 s", Want: Forecast{Outcome: Delays, Within: 3*time.Second + lease}},
		},
		Run: func(b *Bench) Observation {
			env := []string{fmt.Sprintf("STOCK_LOCK_WATCHDOG_LEASE=%v", lease)}
			wait := 3 * lease
			if b.Case.Variant != "no budget" {
				env, wait = append(env, "STOCK_LOCK_MAX_HOLD=3s"), patience
			}
			apps := b.Apps(2, env...)
			b.Stock(2)
			b.Watch(apps[1])
			a := b.Begin(apps[0], "A", Ask{Pause: []string{BeforeWrite}, Heedless: true}).Paused(BeforeWrite)
			next := b.Begin(apps[1], "B", Ask{Wait: &wait})
			reply := next.Reply()
			b.TTL(lockKey(b.Case.Strategy, b.SKU))
			a.Go()
			late := a.Reply()
			if b.Judge().Lost() {
				return Observation{Outcome: Oversells}
			}
			if reply.Outcome == loadtest.Busy {
				b.Evidence(Waited, ms(next.Took()), "B gave up after %v, three leases", next.Took().Round(time.Millisecond))
				return Observation{Outcome: Blocks}
			}
			b.Evidence(Fence, nil, "A wrote late: %s", Told(late))
			return Observation{Outcome: Delays, After: next.Took()}
		},
	}
}
