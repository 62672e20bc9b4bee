package lab

import (
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/stack/wire"
)

func lostReplyOnAcquire() Scenario {
	return Scenario{
		Name: "lost-reply-on-acquire", Group: SetNX,
		Title:  Text{"The reply to the lock request is lost", "加锁请求的回复丢了"},
		Setup:  Text{"Three units in stock; A reaches Redis through a proxy. Leases of 60 s, and 3 s for the naive code.", "库存 3 件；A 经代理访问 Redis。租约 60 秒，幼稚代码为 3 秒。"},
		Forced: Text{"A asks for the lock. Redis sets the key; the connection breaks instead of the reply. B comes.", "A 请求加锁；Redis 写入了键，但连接在回复之前断开。B 到来。"},
		Why: Text{
			"\"It failed\" and \"I do not know\" are two answers. Code that takes the one for the other leaves a key behind that nobody holds, and everybody waits for its expiry.",
			"“失败了”和“不知道”是两种答复。把后者当前者，就会留下一个没有持有者的键，大家都得等它过期。",
		},
		Fix: Text{
			"After an unknown outcome free what may be there, by its token, before returning; or ask again with the same token.",
			"结果未知时，返回之前先按令牌释放可能存在的键；或者用同一个令牌再问一次。",
		},
		Needs: []Need{NeedRedis},
		Cases: concat(
			[]Case{{Code: "naive", Variant: "takes it for a failure", Want: Forecast{Outcome: Delays, Within: 3 * time.Second}}},
			stated(Safe, "", "redis-setnx", "redis-watchdog")),
		Run: func(b *Bench) Observation {
			p := b.Proxy(NeedRedis)
			if b.Case.Code == "naive" {
				a := newNaiveLock(b.RedisAt(p.Addr()), b.SKU, 3*time.Second)
				lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: wire.Contains(b.SKU)})
				from := time.Now()
				_, err := a.try(b.Ctx)
				b.Sprung(lost, Text{"the reply to SET NX is lost", "SET NX 的答复丢失"})
				b.must(err != nil, "A is told that it failed")
				b.Evidence(Answer, err.Error(), "A was told: %v", err)
				b.TTL(b.SKU)
				next := newNaiveLock(b.Redis(), b.SKU, patience)
				ok, err := next.try(b.Ctx)
				b.Must("B asks", err)
				b.Note("B", "SET NX: %t", ok)
				if ok {
					return Observation{Outcome: Safe}
				}
				b.Eventually("B gets the lock", func() bool {
					ok, err = next.try(b.Ctx)
					b.Must("B asks", err)
					return ok
				})
				b.Note("B", "SET NX: %t", ok)
				after := time.Since(from)
				b.Evidence(Waited, ms(after), "B was let in after %v", after.Round(time.Millisecond))
				return Observation{Outcome: Delays, After: after}
			}
			leases := []string{"STOCK_LOCK_SETNX_LEASE=60s", "STOCK_LOCK_WATCHDOG_LEASE=60s"}
			first, second := b.Apps(1, append(leases, b.Via(NeedRedis))...)[0], b.Apps(1, leases...)[0]
			b.Stock(3)
			b.Sell(first, "warm-up", Ask{}) // or what gets lost is only the answer that Redis does not know the script
			lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: wire.Contains(lockKey(b.Case.Strategy, b.SKU))})
			a := b.Begin(first, "A", Ask{})
			b.Sprung(lost, Text{"the reply is lost", "答复丢失"})
			a.Reply()
			next := b.Sell(second, "B", Ask{Wait: For(patience / 2)})
			b.TTL(lockKey(b.Case.Strategy, b.SKU))
			b.Judge()
			if next.Outcome == loadtest.Accepted {
				return Observation{Outcome: Safe}
			}
			return Observation{Outcome: Delays, After: patience}
		},
	}
}

func lostReplyOnUnlock() Scenario {
	return Scenario{
		Name: "lost-reply-on-unlock", Group: SetNX,
		Title:  Text{"The reply to the unlock request is lost", "解锁请求的回复丢了"},
		Setup:  Text{"Three units in stock; A reaches Redis through a proxy.", "库存 3 件；A 经代理访问 Redis。"},
		Forced: Text{"A has sold and gives the lock back. Redis deletes the key; the connection breaks instead of the reply.", "A 已卖出并释放锁；Redis 删除了键，但连接在回复之前断开。"},
		Why: Text{
			"A second try finds no key, or another's, and says \"not yours\". Code that makes a failure of that tells its customer so, who buys once more. The order stood all the time.",
			"再试一次会发现键没了或已属于别人，得到“不是你的”。若代码据此报失败，客户就会再买一次；而订单其实一直有效。",
		},
		Fix: Text{
			"What the customer is told follows from the write, not from the unlock. A release that finds the key gone has nothing left to do.",
			"对客户的答复取决于写入，而不是解锁。释放时发现键已不在，就没什么可做的了。",
		},
		Needs: []Need{NeedRedis},
		Cases: concat(
			[]Case{{Code: "naive", Variant: "answers with the unlock's error", Want: Forecast{Outcome: Duplicates}}},
			stated(Safe, "", "redis-setnx", "redis-setnx-watch", "redis-watchdog")),
		Run: func(b *Bench) Observation {
			p := b.Proxy(NeedRedis)
			if b.Case.Code == "naive" {
				return unlockNaively(b, p)
			}
			leases := []string{"STOCK_LOCK_SETNX_LEASE=60s", "STOCK_LOCK_WATCHDOG_LEASE=60s"}
			first, second := b.Apps(1, append(leases, b.Via(NeedRedis))...)[0], b.Apps(1, leases...)[0]
			b.Stock(3)
			b.Sell(first, "warm-up", Ask{}) // or what gets lost is only the answer that Redis does not know the script
			a := b.Begin(first, "A", Ask{Pause: []string{AfterWrite}}).Paused(AfterWrite)
			lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: wire.Contains(lockKey(b.Case.Strategy, b.SKU))})
			a.Go()
			b.Sprung(lost, Text{"the reply is lost", "答复丢失"})
			sold := a.Reply()
			next := b.Sell(second, "B", Ask{Wait: For(patience / 2)})
			b.Judge()
			if sold.Outcome == loadtest.Accepted && next.Outcome == loadtest.Accepted {
				return Observation{Outcome: Safe}
			}
			return Observation{Outcome: Delays, After: patience}
		},
	}
}

// unlockNaively sells under a right lock and answers with what became of the unlock.
func unlockNaively(b *Bench, p *wire.Proxy) Observation {
	stock, orders := b.SKU+"-stock", b.SKU+"-orders"
	c := b.Redis()
	b.Must("SET", c.Set(b.Ctx, stock, 2, patience*2).Err())
	via := b.RedisAt(p.Addr())
	sell := func() error {
		l := newNaiveLock(via, b.SKU, patience)
		ok, err := l.try(b.Ctx)
		b.Must("A: lock", err)
		b.must(ok, "A gets the lock")
		b.Must("DECR", c.Decr(b.Ctx, stock).Err())
		b.Must("RPUSH", c.RPush(b.Ctx, orders, "the order of A").Err())
		return l.unlock(b.Ctx)
	}
	lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Skip: 1, Match: wire.Contains(b.SKU)}) // the lock passes
	err := sell()
	b.Sprung(lost, Text{"the reply to the unlock is lost", "解锁的答复丢失"})
	b.must(err != nil, "the unlock fails")
	b.Evidence(Answer, err.Error(), "A's customer was told: %v", err)
	if err := sell(); err != nil { // the customer tries again
		b.Must("unlock", err)
	}
	n, err := c.LLen(b.Ctx, orders).Result()
	b.Must("LLEN", err)
	b.Must("EXPIRE", c.Expire(b.Ctx, orders, patience).Err())
	b.Evidence(Balance, n, "%d orders for the one that was wanted", n)
	if n == 2 {
		return Observation{Outcome: Duplicates}
	}
	return Observation{Outcome: Safe}
}
