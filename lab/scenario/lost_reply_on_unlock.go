package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func lostReplyOnUnlock() lab.Scenario {
	return lab.Scenario{
		Name: "lost-reply-on-unlock", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: slices.Concat(
			[]lab.Case{
				{Code: "naive", Variant: "answers-with-the-unlocks-error", Want: lab.Forecast{Outcome: lab.Duplicates}},
			},
			lab.Stated(lab.Safe, "", "redis-setnx", "redis-setnx-watch", "redis-rlock", "redis-watchdog"),
		),
		Run: func(b *lab.Testbed) lab.Observation {
			p := b.Proxy(lab.NeedRedis)
			if b.Case.Code == "naive" {
				return unlockNaively(b, p)
			}
			leases := []string{"STOCK_LOCK_SETNX_LEASE=60s", "STOCK_LOCK_WATCHDOG_LEASE=60s"}
			first, second := b.Apps(1, append(leases, b.Via(lab.NeedRedis))...)[0], b.Apps(1, leases...)[0]
			b.Stock(3)
			b.Watch(second)
			// This loads the script into Redis. Otherwise the lost reply would be that Redis does not have it.
			b.Sell(first, "warm-up", lab.Request{})
			a := b.BeginPaused(first, "A", lab.AfterWrite, lab.Request{})
			key := lockKey(b.Case.Strategy, b.SKU)
			lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: wire.Contains(key)})
			a.Go()
			b.Sprung(lost, "reply-is-lost")
			sold := a.Reply()
			next := b.Sell(second, "B", lab.Request{Wait: lab.For(lab.Patience / 2)})
			b.Judge()
			if sold.Outcome == loadtest.Accepted && next.Outcome == loadtest.Accepted {
				return lab.Safe.Seen()
			}
			return lab.Observation{Outcome: lab.Delays, After: lab.Patience}
		},
	}
}

// unlockNaively sells under a correct lock, and returns the error of the unlock to the customer.
func unlockNaively(b *lab.Testbed, p *wire.Proxy) lab.Observation {
	stock, orders := b.SKU+"-stock", b.SKU+"-orders"
	c := b.Redis()
	b.Must("SET", c.Set(b.Ctx, stock, 2, lab.Patience*2).Err())
	via := b.RedisAt(p.Addr())
	sell := func() error {
		l := newNaiveLock(via, b.SKU, lab.Patience)
		ok, err := l.try(b.Ctx)
		b.Must("A: lock", err)
		b.Require(ok, "A gets the lock")
		b.Must("DECR", c.Decr(b.Ctx, stock).Err())
		b.Must("RPUSH", c.RPush(b.Ctx, orders, "the order of A").Err())
		return l.unlock(b.Ctx)
	}
	// The trap passes the reply to the lock, and cuts the reply to the unlock.
	lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Skip: 1, Match: wire.Contains(b.SKU)})
	err := sell()
	b.Sprung(lost, "unlock-reply-is-lost")
	b.Require(err != nil, "the unlock fails")
	b.Evidence(lab.Answer, err.Error(), "customer-was-told", "answer", err)
	if err := sell(); err != nil { // the customer tries again
		b.Must("unlock", err)
	}
	n, err := c.LLen(b.Ctx, orders).Result()
	b.Must("LLEN", err)
	b.Must("EXPIRE", c.Expire(b.Ctx, orders, lab.Patience).Err())
	b.Evidence(lab.Balance, n, "orders-for-one", "orders", n)
	if n == 2 {
		return lab.Duplicates.Seen()
	}
	return lab.Safe.Seen()
}
