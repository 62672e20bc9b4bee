package lab

import (
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/stack/wire"
)

func crashBetween() Scenario {
	return Scenario{
		Name: "crash-between-setnx-and-expire", Group: SetNX,
		Title: Text{"A crash between SETNX and EXPIRE", "在 SETNX 与 EXPIRE 之间崩溃"},
		Setup: Text{
			"One unit in stock; leases of 2 s; the first instance speaks to Redis through a proxy.",
			"库存 1 件；租约 2 秒；第一个实例经代理访问 Redis。",
		},
		Forced: Text{
			"The proxy holds A's EXPIRE back, and the first instance is killed (SIGKILL): the key is there, its expiry never comes. Where lock and expiry are one command, it is killed as soon as that is done. B comes to the second instance.",
			"代理扣住 A 的 EXPIRE，随后杀死第一个实例（SIGKILL）：键在，过期时间永远不会来。若加锁与过期是同一条命令，则在它完成后立即杀死。然后 B 来到第二个实例。",
		},
		Why: Text{
			"Two commands are two steps. A crash, a deployment or a broken connection between them leaves a key with PTTL -1, and nobody who could delete it.",
			"两条命令就是两步。其间的崩溃、发布或断线会留下一个 PTTL 为 -1 的键，而没有人能删它。",
		},
		Fix: Text{
			"SET key value NX PX lease: one command. For keys that are there already: a contender that sees the same value without expiry twice sets one.",
			"用一条命令 SET key value NX PX lease。对已存在的键：竞争者两次看到同一个值没有过期时间，就给它补上。",
		},
		Needs: []Need{NeedRedis},
		Cases: []Case{
			{Strategy: "redis-setnx-expire"},
			{Strategy: "redis-setnx-expire", Variant: "with repair", Want: Forecast{Outcome: Delays, Within: 3 * time.Second}},
			{Strategy: "redis-setnx"},
			{Strategy: "redis-setnx-watch"},
		},
		Predict: func(_ Case, p Promise) Forecast { return freed(p) },
		Run:     crashWithTheKey,
	}
}

// freed is the forecast for a key whose holder has crashed.
func freed(p Promise) Forecast {
	if d, ok := p.Freed(); ok {
		return Forecast{Outcome: Delays, Within: d, From: "freed_after_crash_seconds"}
	}
	return Forecast{Outcome: Blocks, From: "freed_after_crash_seconds: null"}
}

func crashWithTheKey(b *Bench) Observation {
	env := []string{"STOCK_LOCK_SETNX_LEASE=2s"}
	if b.Case.Variant == "with repair" {
		env = append(env, "STOCK_LOCK_SETNX_REPAIR=true")
	}
	proxy := b.Proxy(NeedRedis)
	first := b.Apps(1, append(env, b.Via(NeedRedis))...)[0]
	second := b.Apps(1, env...)[0]
	b.Stock(1)
	key := lockKey(b.Case.Strategy, b.SKU)
	if b.Case.Strategy == "redis-setnx-expire" {
		snare := b.Trap(proxy, wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: func(m []byte) bool {
			return wire.Contains("pexpire")(m) && wire.Contains(key)(m)
		}})
		b.Begin(first, "A", Ask{})
		b.Sprung(snare, Text{"EXPIRE is held back", "EXPIRE 被扣住"})
	} else {
		b.Begin(first, "A", Ask{Pause: []string{AfterLock}}).Paused(AfterLock)
	}
	killed := b.Kill(first)
	proxy.Cut() // what was held back is lost with the connection
	forever := b.TTL(key) < 0
	if b.Case.Variant != "with repair" && forever {
		b.Sell(second, "B", Ask{Wait: For(5 * time.Second)})
		if b.TTL(key); b.Judge().Busy == 1 {
			return Observation{Outcome: Blocks}
		}
		b.Fatalf("PTTL was -1, and yet B was let in")
	}
	if reply := b.Sell(second, "B", Ask{Wait: For(patience)}); reply.Outcome != loadtest.Accepted {
		b.Fatalf("B was not let in within %v", patience)
	}
	after := b.calls[1].record.AcquiredAt.Sub(killed)
	b.Evidence(Waited, ms(after), "B was let in %v after the crash", after.Round(time.Millisecond))
	b.Judge()
	return Observation{Outcome: Delays, After: after}
}
