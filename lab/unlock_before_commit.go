package lab

import "database/sql"

func unlockBeforeCommit() Scenario {
	return Scenario{
		Name: "unlock-before-commit", Group: NoLock,
		Title: Text{"The lock is given back before the commit", "先释放锁，后提交事务"},
		Setup: Text{
			"One unit in a table of MariaDB, and a right lock in Redis around the work, inside a transaction: what an annotation on the wrong method makes.",
			"MariaDB 表里库存 1 件；事务之内用一把正确的 Redis 锁包住业务：注解加错了方法就是这样。",
		},
		Forced: Text{
			"A locks, reads, writes and gives the lock back. Before A commits, B locks and reads. Then A commits, and B writes and commits. The mended code commits before it gives the lock back.",
			"A 加锁、读、写、释放锁；在 A 提交之前，B 加锁并读取；随后 A 提交，B 写入并提交。改正后的代码先提交再释放锁。",
		},
		Why: Text{
			"Until the commit nobody else can see what A wrote. B holds the lock by right and reads the old quantity all the same.",
			"提交之前，别人看不到 A 写的内容。B 合法地持有锁，读到的却仍是旧库存。",
		},
		Fix: Text{
			"The lock goes around the whole transaction: lock, begin, commit, unlock.",
			"锁要包住整个事务：加锁、开始、提交、解锁。",
		},
		Needs: []Need{NeedRedis, NeedMySQL},
		Cases: []Case{
			{Code: "naive", Variant: "unlock, then commit", Want: Forecast{Outcome: Oversells}},
			{Code: "mended", Variant: "commit, then unlock", Want: Forecast{Outcome: Safe}},
		},
		Quick: true,
		Run: func(b *Bench) Observation {
			shop := newNaiveShop(b, 1)
			first, second := newNaiveLock(b.Redis(), b.SKU, 2*patience), newNaiveLock(b.Redis(), b.SKU, 2*patience)
			locked := func(who string, l *naiveLock) bool {
				ok, err := l.try(b.Ctx)
				b.Must(who+": lock", err)
				b.Note(who, "SET NX: %t", ok)
				return ok
			}
			unlocked := func(who string, l *naiveLock) {
				b.Must(who+": unlock", l.unlock(b.Ctx))
				b.Note(who, "unlock")
			}
			b.must(locked("A", first), "A gets the lock")
			a := shop.begin("A", sql.LevelDefault)
			a.read("")
			a.write()
			if b.Case.Code == "mended" {
				a.commit()
				unlocked("A", first)
			} else {
				unlocked("A", first)
			}
			b.must(locked("B", second), "B gets the lock")
			next := shop.begin("B", sql.LevelDefault)
			next.read("")
			if b.Case.Code == "naive" {
				a.commit()
			}
			next.write()
			next.commit()
			unlocked("B", second)
			return shop.verdict()
		},
	}
}
