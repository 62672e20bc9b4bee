package lab

import "database/sql"

func snapshotBeforeLock() Scenario {
	return Scenario{
		Name: "snapshot-before-lock", Group: NoLock,
		Title: Text{"The snapshot is taken before the lock", "先取快照，后加锁"},
		Setup: Text{
			"One unit in a table of MariaDB at REPEATABLE READ, and a right lock in Redis that is held until after the commit.",
			"MariaDB 表里库存 1 件，隔离级别为可重复读；一把正确的 Redis 锁，提交之后才释放。",
		},
		Forced: Text{
			"B begins its transaction and reads something, whatever it is. Then A locks, sells, commits and unlocks. Then B gets the lock, reads the stock and sells.",
			"B 先开启事务并读了点别的东西；随后 A 加锁、卖出、提交、解锁；然后 B 拿到锁，读取库存并卖出。",
		},
		Why: Text{
			"At REPEATABLE READ the first read of a transaction freezes what all its later plain reads see. B holds the lock by right and reads the stock as it was before A.",
			"在可重复读级别下，事务的第一次读就定格了其后所有普通读所见。B 合法地持有锁，读到的却是 A 卖出之前的库存。",
		},
		Fix: Text{
			"Lock first, then begin; or read the row FOR UPDATE, which reads what is committed now.",
			"先加锁再开启事务；或者用 FOR UPDATE 读这一行，它读到的是当前已提交的内容。",
		},
		Needs: []Need{NeedRedis, NeedMySQL},
		Cases: []Case{
			{Code: "naive", Variant: "begin, then lock", Want: Forecast{Outcome: Oversells}},
			{Code: "mended", Variant: "lock, then begin", Want: Forecast{Outcome: Safe}},
			{Code: "mended", Variant: "begin, lock, then FOR UPDATE", Want: Forecast{Outcome: Safe}},
		},
		Quick: true,
		Run: func(b *Bench) Observation {
			shop := newNaiveShop(b, 1)
			early := b.Case.Variant != "lock, then begin"
			locking := ""
			if b.Case.Variant == "begin, lock, then FOR UPDATE" {
				locking = "FOR UPDATE"
			}
			var late *naiveSale
			begin := func() { late = shop.begin("B", sql.LevelRepeatableRead) }
			if early {
				begin()
				b.Int("B", late.tx, "SELECT COUNT(*) FROM orders")
			}
			under(b, "A", func() {
				first := shop.begin("A", sql.LevelRepeatableRead)
				first.read("")
				first.write()
				first.commit()
			})
			under(b, "B", func() {
				if !early {
					begin()
				}
				late.read(locking)
				late.write()
				late.commit()
			})
			return shop.verdict()
		},
	}
}

// under does work under a right lock that is free, and gives it back.
func under(b *Bench, who string, work func()) {
	l := newNaiveLock(b.Redis(), b.SKU, 2*patience)
	ok, err := l.try(b.Ctx)
	b.Must(who+": lock", err)
	b.must(ok, who+" gets the lock")
	b.Note(who, "SET NX: %t", ok)
	work()
	b.Must(who+": unlock", l.unlock(b.Ctx))
	b.Note(who, "unlock")
}
