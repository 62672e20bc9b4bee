package scenario

import (
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func crashBetween() lab.Scenario {
	return lab.Scenario{
		Name: "crash-between-setnx-and-expire", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			{Strategy: "redis-setnx-expire"},
			within(3*time.Second, "redis-setnx-expire", "with-repair"),
			{Strategy: "redis-setnx"},
			{Strategy: "redis-setnx-watch"},
		},
		Predict: freed,
		Run:     crashWithTheKey,
	}
}

func crashWithTheKey(b *lab.Testbed) lab.Outcome {
	env := []string{"STOCK_LOCK_SETNX_LEASE=2s"}
	if b.Case.Variant == "with-repair" {
		env = append(env, "STOCK_LOCK_SETNX_REPAIR=true")
	}
	proxy := b.Proxy(lab.NeedRedis)
	first := b.Apps(1, append(env, b.Via(lab.NeedRedis))...)[0]
	second := b.Apps(1, env...)[0]
	b.Stock(1)
	b.Watch(second)
	key := lockKey(b.Case.Strategy, b.SKU)
	if b.Case.Strategy == "redis-setnx-expire" {
		snare := b.Trap(proxy, wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: func(m []byte) bool {
			return wire.Contains("pexpire")(m) && wire.Contains(key)(m)
		}})
		b.Begin(first, "A", lab.Request{})
		b.Sprung(snare, "expire-is-held-back")
	} else {
		b.BeginPaused(first, "A", lab.AfterLock, lab.Request{})
	}
	killed := b.Kill(first)
	proxy.Cut() // the command that was held back is lost with the connection
	forever := b.TTL(key) < 0
	if b.Case.Variant != "with-repair" && forever {
		b.Sell(second, "B", lab.Request{Wait: lab.For(5 * time.Second)})
		if b.TTL(key); b.Judge().Busy == 1 {
			return lab.Blocks
		}
		b.Fatalf("PTTL was -1, and yet B was let in")
	}
	if reply := b.Sell(second, "B", lab.Request{Wait: lab.For(lab.Patience)}); reply.Outcome != loadtest.Accepted {
		b.Fatalf("B was not let in within %v", lab.Patience)
	}
	after := b.Calls()[1].Record().AcquiredAt.Sub(killed)
	b.Evidence(lab.Waited, after, "let-in-after-crash", "after", after)
	b.Judge()
	return b.Delayed(after)
}
