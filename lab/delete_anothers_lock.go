package lab

func deleteAnothersLock() Scenario {
	return Scenario{
		Name: "delete-anothers-lock", Group: SetNX,
		Title: Text{"A late holder deletes the lock of the next", "迟到的持有者删掉了下一个人的锁"},
		Setup: Text{
			"Two units in stock. A's lease is 1 s, that of all others 30 s.",
			"库存 2 件。A 的租约为 1 秒，其他人的为 30 秒。",
		},
		Forced: Text{
			"A has written, and stops before it gives the lock back, until its lease is over and B is let in. B reads and stops. Then A gives the lock back that it has no more, and C comes and does not wait.",
			"A 写完后停在释放锁之前，直到租约过期、B 进入。B 读完停住。这时 A 释放它早已失去的锁，C 到来且不等锁。",
		},
		Why: Text{
			"DEL does not ask whose key it is. B's lease had nearly all of its 30 s left; C gets in only because A deleted it. One slow holder breaks the lock for everybody after it.",
			"DEL 不问键是谁的。B 的租约还剩将近 30 秒，C 能进来只因为 A 删了 B 的键。一个慢的持有者就能让后面所有人的锁失效。",
		},
		Fix: Text{
			"A value that only this holder writes, and compare-and-delete in one step: Lua, WATCH, or DELEX ... IFEQ (Redis 8.4 and later).",
			"写入只属于自己的值，并以一步完成“比较后删除”：Lua、WATCH 或 DELEX ... IFEQ（Redis 8.4 及以上）。",
		},
		Needs: []Need{NeedRedis},
		Cases: Cases("", "redis-setnx-del", "redis-setnx-expire", "redis-setnx-watch", "redis-setnx"),
		Predict: func(_ Case, p Promise) Forecast {
			if p.Exclusive && p.SignalsLoss {
				return Forecast{Outcome: Safe, From: "exclusive, signals_loss"}
			}
			return Forecast{Outcome: Oversells, From: "signals_loss: false"}
		},
		Run: func(b *Bench) Observation {
			short, long := b.Apps(1, "STOCK_LOCK_SETNX_LEASE=1s")[0], b.Apps(2, "STOCK_LOCK_SETNX_LEASE=30s")
			b.Stock(2)
			b.Watch(long[0])
			a := b.Begin(short, "A", Ask{Pause: []string{AfterWrite}, Heedless: true}).Paused(AfterWrite)
			second := b.Begin(long[0], "B", Ask{Pause: []string{BeforeWrite}, Wait: For(patience)}).Paused(BeforeWrite)
			b.TTL(lockKey(b.Case.Strategy, b.SKU))
			a.Go().Reply()
			b.TTL(lockKey(b.Case.Strategy, b.SKU))
			third := b.Begin(long[1], "C", Ask{Pause: []string{BeforeWrite}, Wait: Once()})
			inside := third.PausedOrAnswered(BeforeWrite)
			second.Go().Reply()
			if inside {
				b.Evidence(Hold, nil, "C was let in beside B, who still held the lock")
				third.Go().Reply()
			}
			if b.Judge().Lost() {
				return Observation{Outcome: Oversells}
			}
			return Observation{Outcome: Safe}
		},
	}
}

// lockKey is the key in Redis of a lock of the service.
func lockKey(strategy, sku string) string {
	prefix := map[string]string{
		"redis-setnx": "lock", "redis-setnx-del": "setnx-del", "redis-setnx-expire": "setnx-expire", "redis-setnx-watch": "setnx-watch",
		"redis-watchdog": "watchdog",
	}[strategy]
	return prefix + ":{" + sku + "}"
}
