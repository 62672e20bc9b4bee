package lab

import "time"

func holderFrozen() Scenario {
	return Scenario{
		Name: "holder-frozen-past-lease", Group: SetNX,
		Title: Text{"The holder is frozen past its lease", "持有者被冻结，直到租约过期"},
		Setup: Text{
			"One unit in stock. Leases of 2 s, a session of 4 s; the leases of Redlock and of the MySQL locks are 10 s.",
			"库存 1 件。租约 2 秒，会话 4 秒；Redlock 和 MySQL 锁的租约为 10 秒。",
		},
		Forced: Text{
			"A has read on the first instance, which is then stopped as a whole (SIGSTOP): a long garbage collection, a suspended virtual machine. B waits on the second instance until the server lets it in, and sells. Then the first goes on.",
			"A 在第一个实例上读完，随后整个进程被停住（SIGSTOP）：好比长时间的垃圾回收，或虚拟机挂起。B 在第二个实例上等到服务器放行并卖出，然后第一个实例恢复运行。",
		},
		Why: Text{
			"A watchdog lives in the process that it guards: what stops the one stops the other, and nothing renews. When the process wakes up it goes on in the middle of its work, as if no time had passed.",
			"看门狗和它守护的进程同生共停：进程停了，续期也停了。进程醒来时会从工作的中间继续，仿佛时间没有流逝。",
		},
		Fix: Text{
			"A local deadline that is looked at before the write narrows the gap; only a fence that the store compares closes it.",
			"写入前检查本地期限只能缩小窗口；只有由存储比较的栅栏令牌才能彻底关闭它。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper, NeedMySQL, NeedRedlock},
		Cases: concat(
			Cases(told, "redis-setnx", "redis-watchdog", "zk-sequential", "redlock"),
			Cases(deaf, "redis-setnx", "redis-setnx-expire", "redis-watchdog", "zk-sequential", "redlock", "mysql-table", "mysql-for-update", "mysql-get-lock"),
			Cases(blind, "redis-setnx", "redis-watchdog", "zk-sequential", "mysql-table")),
		Predict: lateWriter,
		Together: func(benches []*Bench) []Observation {
			var apps []*App
			for _, b := range benches {
				apps = b.Apps(2, "STOCK_LOCK_SETNX_LEASE=2s", "STOCK_LOCK_WATCHDOG_LEASE=2s", "STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s")
				b.Stock(1)
				b.Watch(apps[1])
			}
			for _, b := range benches {
				b.Begin(apps[0], "A", lateAsk(b.Case.Variant)).Paused(BeforeWrite)
			}
			thaw := FreezeFor(benches, apps[0])
			for _, b := range benches {
				b.Begin(apps[1], "B", Ask{Wait: For(patience)})
			}
			for _, b := range benches {
				next := b.calls[1]
				next.Reply()
				b.Evidence(Waited, ms(next.Took()), "B was let in %v after A was frozen", next.Took().Round(time.Millisecond))
			}
			thaw()
			return each(benches, func(b *Bench) Observation {
				a := b.calls[0]
				if b.Case.Variant != told {
					a.Go()
				}
				return lateVerdict(b, a)
			})
		},
	}
}
