package lab

func gapLockDeadlock() Scenario {
	return Scenario{
		Name: "gap-lock-deadlock", Group: MySQL,
		Title:  Text{"FOR UPDATE on a SKU that is not there", "对不存在的 SKU 使用 FOR UPDATE"},
		Setup:  Text{"An empty stock table of MariaDB at REPEATABLE READ.", "MariaDB 里一张空的库存表，隔离级别为可重复读。"},
		Forced: Text{"A and B both look for the SKU FOR UPDATE and find none. Then both insert it. The mended code inserts first (ON DUPLICATE KEY UPDATE) and locks after.", "A 和 B 都用 FOR UPDATE 查这个 SKU，都没查到；然后都去插入它。改正后的代码先插入（ON DUPLICATE KEY UPDATE），再加锁。"},
		Why: Text{
			"Where there is no row InnoDB locks the gap, and gap locks do not exclude each other: both have it. Each insert then waits for the other's gap.",
			"没有行可锁时 InnoDB 锁的是间隙，而间隙锁彼此不互斥：两者都拿到了。于是各自的插入都在等对方的间隙。",
		},
		Fix: Text{
			"Make sure that the row is there before it is locked, or lock something that is: a row per SKU that is made with the SKU. And repeat on 1213.",
			"加锁前先保证行存在，或者锁一个一定存在的东西：与 SKU 同时创建的行。并且遇到 1213 就重试。",
		},
		Needs: []Need{NeedRedis, NeedMySQL},
		Cases: []Case{
			{Code: "naive", Variant: "look, then insert", Want: Forecast{Outcome: Aborts}},
			{Code: "mended", Variant: "insert, then lock", Want: Forecast{Outcome: Safe}},
		},
		Quick: true,
		Run: func(b *Bench) Observation {
			db := b.DB()
			b.Exec("mysql", db, "CREATE TABLE stock (sku VARCHAR(64) PRIMARY KEY, quantity INT NOT NULL) ENGINE=InnoDB")
			a, other := b.session(db, "A"), b.session(db, "B")
			const (
				look   = "SELECT quantity FROM stock WHERE sku = 'sku' FOR UPDATE"
				insert = "INSERT INTO stock VALUES ('sku', 1)"
				upsert = "INSERT INTO stock VALUES ('sku', 1) ON DUPLICATE KEY UPDATE quantity = quantity"
			)
			for _, s := range []*session{a, other} {
				s.do("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
				s.do("BEGIN")
			}
			if b.Case.Code == "mended" {
				a.do(upsert)
				waits := other.beside(upsert)
				other.waiting(db)
				a.do(look)
				a.do("COMMIT")
				b.Must("B: "+upsert, <-waits)
				other.do(look)
				other.do("COMMIT")
				b.Evidence(Answer, nil, "B waited for the row of A, and nobody was ended")
				return Observation{Outcome: Safe}
			}
			a.do(look)
			other.do(look)
			waits := a.beside(insert)
			a.waiting(db)
			err := other.try(insert)
			first := <-waits
			aborted := max(errno(err), errno(first))
			b.must(aborted == errDeadlock && (err == nil) != (first == nil), "one of the two, and only one, is ended with 1213")
			b.Evidence(Answer, aborted, "one of the two was told: error %d", aborted)
			a.do("COMMIT")
			other.do("COMMIT")
			return Observation{Outcome: Aborts}
		},
	}
}
