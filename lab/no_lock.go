package lab

import "example.com/stock/loadtest"

func noLock() Scenario {
	return Scenario{
		Name: "no-lock", Group: NoLock,
		Title: Text{"Two buyers of the last unit", "两个人同时买最后一件"},
		Setup: Text{"One unit in stock; two instances of the service.", "库存只有 1 件；服务有两个实例。"},
		Forced: Text{
			"A, on the first instance, reads and stops before it writes. B comes to the second instance, and does not wait for a lock. If B is let in it stops in the same place; then both go on. If it is turned away it tries again after A.",
			"A 在第一个实例上读完库存，停在写入之前；B 来到第二个实例，且不等锁。若 B 也进入了临界区，就停在同一处，然后两者都继续；若 B 被拒绝，就在 A 之后再试一次。",
		},
		Why: Text{
			"Read, think, write is three steps. What was read is out of date as soon as another writes, and a blind write does not notice.",
			"“读—算—写”是三步。只要别人写过，读到的就过时了，而盲写不会察觉。",
		},
		Fix: Text{
			"A lock that reaches as far as the instances do, a version that is compared on writing, or one atomic statement.",
			"使用覆盖所有实例的锁、写入时比较版本号，或者用一条原子语句。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper, NeedMySQL, NeedRedlock},
		Cases: append(Cases("",
			"none", "local-mutex", "redis-setnx-expire", "redis-setnx-del", "redis-setnx-watch", "redis-setnx", "redis-watchdog", "redlock",
			"zk-ephemeral", "zk-sequential", "mysql-table", "mysql-for-update", "mysql-get-lock", "segmented", "pessimistic", "optimistic", "atomic"),
			Case{Strategy: "none", Store: "mysql"}, Case{Strategy: "redis-watchdog", Store: "mysql"},
			Case{Strategy: "optimistic", Store: "mysql"}, Case{Strategy: "atomic", Store: "mysql"}),
		Quick:   true,
		Predict: func(_ Case, p Promise) Forecast { return excludes(p, Safe) },
		Run: func(b *Bench) Observation {
			apps := b.Apps(2)
			return twoBuyers(b, apps[0], apps[1])
		},
	}
}

// twoBuyers sells the last unit to A and to B, if the lock lets B in.
func twoBuyers(b *Bench, first, second *App) Observation {
	b.Stock(1)
	point := BeforeWrite
	if b.Case.Strategy == "atomic" {
		point = AfterLock // there is nothing between its read and its write
	}
	a := b.Begin(first, "A", Ask{Pause: []string{point}}).Paused(point)
	other := b.Begin(second, "B", Ask{Pause: []string{point}, Wait: Once()})
	inside := other.PausedOrAnswered(point)
	a.Go()
	a.Reply()
	if inside {
		other.Go()
	}
	if other.Reply().Outcome == loadtest.Busy {
		if !inside {
			b.Evidence(Answer, nil, "B was turned away while A was in the critical section")
		}
		b.Sell(second, "B2", Ask{})
	}
	if b.Judge().Lost() {
		return Observation{Outcome: Oversells}
	}
	return Observation{Outcome: Safe}
}
