package lab

import (
	"time"

	"example.com/stock/loadtest"
)

func selfDeadlock() Scenario {
	return Scenario{
		Name: "self-deadlock", Group: Fairness,
		Title: Text{"A holder asks for its own lock", "持有者再次请求自己的锁"},
		Setup: Text{"One unit in stock, one customer, nobody else.", "库存 1 件，只有一个客户，没有别人。"},
		Forced: Text{
			"Inside the critical section A asks for the same lock again: once as the holder that it is, once as code that does not pass its context on. It waits for 1 s at most.",
			"A 在临界区内再次请求同一把锁：一次以持有者的身份，一次是没有把上下文传下去的代码。最多等 1 秒。",
		},
		Why: Text{
			"A lock knows its holder by what it is shown. Thread and goroutine ids are no identity: work moves between them. Who shows nothing waits for itself, until its time or its lease is over; then there are two of it inside.",
			"锁凭出示的身份认人。线程号、协程号都不是身份：工作会在它们之间迁移。什么都不出示的代码只能等自己，直到等待超时或租约到期——那时里面就有两个自己了。",
		},
		Fix: Text{
			"Re-entry by an owner that is passed on (here: the context), or no nesting at all.",
			"以显式传递的持有者身份重入（此处为 context），或者干脆不嵌套。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper, NeedMySQL, NeedRedlock},
		Cases: concat(
			Cases("as its holder", "local-mutex", "redis-setnx", "redis-watchdog", "redlock", "zk-sequential", "mysql-table", "mysql-for-update", "mysql-get-lock"),
			Cases("as a stranger", "none", "local-mutex", "redis-setnx", "redis-watchdog", "redlock", "zk-sequential", "mysql-table", "mysql-for-update", "mysql-get-lock")),
		Predict: func(c Case, p Promise) Forecast {
			switch {
			case !p.Exclusive:
				return Forecast{Outcome: Safe, From: "exclusive: false"}
			case c.Variant == "as a stranger":
				return Forecast{Outcome: Blocks, From: "exclusive"}
			case p.Reentrant:
				return Forecast{Outcome: Safe, From: "reentrant"}
			default:
				return Forecast{Outcome: Blocks, From: "reentrant: false"}
			}
		},
		Run: func(b *Bench) Observation {
			app := b.Apps(1)[0]
			b.Stock(1)
			nested := "holder"
			if b.Case.Variant == "as a stranger" {
				nested = "stranger"
			}
			a := b.Begin(app, "A", Ask{Nested: nested, Wait: For(time.Second)})
			reply := a.Reply()
			b.Evidence(Waited, ms(a.Took()), "A was answered after %v", a.Took().Round(time.Millisecond))
			if reply.Outcome == loadtest.Busy {
				b.Sell(app, "B", Ask{})
				b.Judge()
				return Observation{Outcome: Blocks}
			}
			b.Judge()
			return Observation{Outcome: Safe}
		},
	}
}
