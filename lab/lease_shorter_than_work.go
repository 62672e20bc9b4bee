package lab

import (
	"time"

	"example.com/stock/loadtest"
)

// The variants of a holder whose lease ends while it works.
const (
	told   = "heeds the loss"
	deaf   = "ignores the loss"
	blind  = "ignores the loss, no fence"
	renews = "renewed"
)

// lateWriter is the forecast for a holder whose lease ends before it writes.
func lateWriter(c Case, p Promise) Forecast {
	switch {
	case c.Variant == told && p.SignalsLoss:
		return Forecast{Outcome: Refuses, From: "signals_loss"}
	case c.Variant == deaf && p.Fenced:
		return Forecast{Outcome: Refuses, From: "fenced"}
	case c.Variant == deaf:
		return Forecast{Outcome: Oversells, From: "fenced: false"}
	default:
		return Forecast{Outcome: Oversells, From: "exclusive, while no lease is lost"}
	}
}

// lateAsk is what A asks for in a variant.
func lateAsk(variant string) Ask {
	return Ask{Pause: []string{BeforeWrite}, Heedless: variant == deaf || variant == blind, Unfenced: variant == blind}
}

// lateVerdict judges A, whose lease ended, and B, who sold the last unit meanwhile.
func lateVerdict(b *Bench, a *Call) Observation {
	reply := a.Reply()
	for _, c := range b.calls {
		// A server that did not answer in time has no say in what a lock does.
		b.must(c == a || c.Reply().Problem != "backend_down", c.Who+" is not told that a server is down")
	}
	switch j := b.Judge(); {
	case j.Lost():
		return Observation{Outcome: Oversells}
	case reply.Problem == "lock_lost" || reply.Problem == "stale_fence":
		return Observation{Outcome: Refuses}
	case reply.Outcome == loadtest.Accepted:
		return Observation{Outcome: Safe}
	default:
		b.Fatalf("A was answered %s, which is no outcome of this scenario", Told(reply))
		panic("unreachable")
	}
}

func leaseShorterThanWork() Scenario {
	return Scenario{
		Name: "lease-shorter-than-work", Group: SetNX,
		Title: Text{"The work takes longer than the lease", "业务时间超过租约"},
		Setup: Text{
			"One unit in stock. The lease of the SETNX locks is 1 s, that of the renewed ones 4 s.",
			"库存 1 件。SETNX 类锁的租约为 1 秒，续期类锁的租约为 4 秒。",
		},
		Forced: Text{
			"A, on the first instance, stops before it writes. B, on the second, waits for the lock until the server lets it in, and sells. Then A goes on: once as code that heeds the loss of its lease, once as code that does not, with and without a fence.",
			"A 在第一个实例上停在写入之前；B 在第二个实例上等锁，直到服务器放行，并卖出。然后 A 继续：分别为留意失锁的代码、不留意的代码，以及有无栅栏令牌。",
		},
		Why: Text{
			"The server counts the lease, not the work. When it has run out there are two holders, and the first does not know it unless it looks at its own clock.",
			"服务器计的是租约，不是业务。租约一到，就有两个持有者；前者若不看自己的时钟便毫不知情。",
		},
		Fix: Text{
			"Renew the lease while the work lives (watchdog), stop work when the lease is lost, and let the store refuse a smaller fence.",
			"业务进行期间续期（看门狗），失锁即停，并让存储拒绝较小的栅栏令牌。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper},
		Cases: concat(
			Cases(told, "redis-setnx", "redis-setnx-expire", "redis-setnx-watch"),
			Cases(deaf, "redis-setnx", "redis-setnx-expire", "redis-setnx-del", "redis-setnx-watch"),
			Cases(blind, "redis-setnx"),
			[]Case{
				{Strategy: "redis-watchdog", Variant: renews, Want: Forecast{Outcome: Safe}},
				{Strategy: "zk-sequential", Variant: renews, Want: Forecast{Outcome: Safe}},
			}),
		Predict: lateWriter,
		Together: func(benches []*Bench) []Observation {
			var apps []*App
			for _, b := range benches {
				apps = b.Apps(2, "STOCK_LOCK_SETNX_LEASE=1s", "STOCK_LOCK_WATCHDOG_LEASE=4s", "STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s")
				b.Stock(1)
				b.Watch(apps[1])
			}
			for _, b := range benches {
				b.Begin(apps[0], "A", lateAsk(b.Case.Variant)).Paused(BeforeWrite)
				wait := patience
				if b.Case.Variant == renews {
					wait = 6 * time.Second // longer than the lease
				}
				b.Begin(apps[1], "B", Ask{Wait: &wait})
			}
			return each(benches, func(b *Bench) Observation {
				a, next := b.calls[0], b.calls[1]
				busy, took := next.Reply().Outcome == loadtest.Busy, next.Took() // which there is when it was answered
				if busy {
					b.Evidence(Waited, ms(took), "B was not let in for %v, longer than the lease", took.Round(time.Millisecond))
				} else {
					b.Evidence(Waited, ms(took), "B was let in after %v, with A before its write", took.Round(time.Millisecond))
				}
				if b.Case.Variant != told {
					a.Go()
				}
				return lateVerdict(b, a)
			})
		},
	}
}
