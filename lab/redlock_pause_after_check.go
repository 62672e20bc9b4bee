package lab

func redlockPauseAfterCheck() Scenario {
	return Scenario{
		Name: "redlock-pause-after-validity-check", Group: Redlock,
		Title: Text{"A pause right after the validity check", "有效期检查之后的停顿"},
		Setup: Text{"One unit in stock; leases of 2 s.", "库存 1 件；租约 2 秒。"},
		Forced: Text{
			"A has counted its votes, found its lease valid and entered the critical section; then its whole process is frozen (SIGSTOP) until B has been let in and has read. Then A reads and writes, as code that does not look at its lease again, and B writes after it.",
			"A 数完票、确认租约有效并进入临界区，随后整个进程被冻结（SIGSTOP），直到 B 进入并读完；然后 A 读取并写入，且不再查看租约；B 随后写入。",
		},
		Why: Text{
			"Kleppmann's objection and Antirez' answer meet here: the check of the elapsed time catches every pause before it, and none after it. No lock with a lease does, on one node or on five.",
			"Kleppmann 的质疑与 Antirez 的回应正好交汇于此：已用时间的检查能抓住它之前的任何停顿，却抓不住之后的。任何带租约的锁都是如此，一个节点和五个节点没有分别。",
		},
		Fix: Text{
			"A fence that grows with every holder, compared by the store, together with the version that was read: A's write comes before B's, so the store has not seen B's fence yet, and it is B's write that must be refused, because what B read is not there any more. For efficiency alone no fence is needed, and neither are five nodes.",
			"随每个持有者增长、由存储比较的栅栏令牌，再加上读到的版本号：A 的写先于 B，存储还没见过 B 的令牌，所以必须拒绝的是 B 的写，因为 B 读到的内容已经不在了。若只图效率则不需要令牌，也不需要五个节点。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper, NeedRedlock},
		Cases: Cases(deaf, "redlock", "redis-setnx", "redis-watchdog", "zk-sequential"),
		Predict: func(_ Case, p Promise) Forecast {
			if p.Fenced {
				return Forecast{Outcome: Refuses, From: "fenced"}
			}
			return Forecast{Outcome: Oversells, From: "fenced: false"}
		},
		Together: func(benches []*Bench) []Observation {
			var apps []*App
			for _, b := range benches {
				apps = b.Apps(1, "STOCK_REDLOCK_LEASE=2s", "STOCK_LOCK_SETNX_LEASE=2s", "STOCK_LOCK_WATCHDOG_LEASE=2s", "STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s")
				apps = append(apps, b.Apps(1)...) // where leases are longer: B is to lose nothing
				b.Stock(1)
				b.Watch(apps[1])
			}
			for _, b := range benches {
				b.Begin(apps[0], "A", Ask{Pause: []string{AfterLock}, Heedless: true}).Paused(AfterLock)
			}
			thaw := FreezeFor(benches, apps[0])
			for _, b := range benches {
				b.Begin(apps[1], "B", Ask{Pause: []string{BeforeWrite}, Wait: For(patience)})
			}
			for _, b := range benches {
				b.calls[1].Paused(BeforeWrite)
			}
			thaw()
			return each(benches, func(b *Bench) Observation {
				b.calls[0].Go().Reply()
				b.calls[1].Go()
				switch j := b.Judge(); {
				case j.Lost():
					return Observation{Outcome: Oversells}
				case j.Failed > 0:
					return Observation{Outcome: Refuses}
				default:
					return Observation{Outcome: Safe}
				}
			})
		},
	}
}
