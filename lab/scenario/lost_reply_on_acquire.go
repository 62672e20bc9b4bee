package scenario

import (
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func lostReplyOnAcquire() lab.Scenario {
	return lab.Scenario{
		Name: "lost-reply-on-acquire", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: slices.Concat(
			[]lab.Case{
				byHandWithin(3*time.Second, "naive", "takes-it-for-a-failure"),
			},
			lab.Stated(lab.Safe, "", "redis-setnx", "redis-rlock", "redis-watchdog"),
		),
		Run: func(b *lab.Testbed) lab.Outcome {
			p := b.Proxy(lab.NeedRedis)
			if b.Case.Code == "naive" {
				a := newNaiveLockAt(b, "A", b.RedisAt(p.Addr()), 3*time.Second)
				lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: wire.Contains(b.SKU)})
				from := time.Now()
				_, err := a.try(b.Ctx)
				b.Sprung(lost, "set-nx-reply-is-lost")
				b.Require(err != nil, "A is told that it failed")
				b.Evidence(lab.Answer, err.Error(), "was-told", "who", "A", "answer", err)
				b.TTL(b.SKU)
				next := newNaiveLock(b, "B", lab.Patience)
				if next.takes() {
					return lab.Safe
				}
				next.waits()
				after := time.Since(from)
				b.Evidence(lab.Waited, after, "let-in", "after", after)
				return b.Delayed(after)
			}
			leases := []string{"STOCK_LOCK_SETNX_LEASE=60s", "STOCK_LOCK_WATCHDOG_LEASE=60s"}
			first, second := b.Apps(1, append(leases, b.Via(lab.NeedRedis))...)[0], b.Apps(1, leases...)[0]
			b.Stock(3)
			b.Watch(second)
			// This loads the script into Redis. Otherwise the lost reply would be that Redis does not have it.
			b.Sell(first, "warm-up", lab.Request{})
			key := lockKey(b.Case.Strategy, b.SKU)
			lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: wire.Contains(key)})
			a := b.Begin(first, "A", lab.Request{})
			b.Sprung(lost, "reply-is-lost")
			a.Reply()
			next := b.Sell(second, "B", lab.Request{Wait: lab.For(lab.Patience / 2)})
			b.TTL(key)
			b.Judge()
			if next.Outcome == loadtest.Accepted {
				return lab.Safe
			}
			return b.Delayed(lab.Patience)
		},
	}
}
