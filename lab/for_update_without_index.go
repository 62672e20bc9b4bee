package lab

func forUpdateWithoutIndex() Scenario {
	return Scenario{
		Name: "for-update-without-index", Group: MySQL,
		Title:  Text{"FOR UPDATE without an index", "没有索引的 FOR UPDATE"},
		Setup:  Text{"A hundred SKUs in a table of MariaDB, with and without an index on the column sku.", "MariaDB 表里有 100 个 SKU；sku 列分别有索引和没有索引。"},
		Forced: Text{"A locks the row of its SKU FOR UPDATE. B asks for the row of another SKU with NOWAIT.", "A 用 FOR UPDATE 锁住自己 SKU 的行；B 用 NOWAIT 请求另一个 SKU 的行。"},
		Why: Text{
			"InnoDB locks the index records that it passes, not the rows that match. Without an index on sku it passes all of them, and at REPEATABLE READ keeps them all.",
			"InnoDB 锁的是扫描经过的索引记录，而不是匹配的行。sku 上没有索引就要扫过全表，而在可重复读下会全部锁住不放。",
		},
		Fix: Text{
			"A unique index on what is locked by; EXPLAIN shows what is used, and trx_rows_locked how much is locked.",
			"在加锁条件上建唯一索引；用 EXPLAIN 看走了哪个索引，用 trx_rows_locked 看锁了多少行。",
		},
		Needs: []Need{NeedRedis, NeedMySQL},
		Cases: []Case{
			{Code: "naive", Variant: "no index", Want: Forecast{Outcome: Busy}},
			{Code: "mended", Variant: "unique index", Want: Forecast{Outcome: Safe}},
		},
		Quick: true,
		Run: func(b *Bench) Observation {
			db := b.DB()
			b.Exec("mysql", db, "CREATE TABLE stock (id INT AUTO_INCREMENT PRIMARY KEY, sku VARCHAR(64) NOT NULL, quantity INT NOT NULL) ENGINE=InnoDB")
			b.Exec("mysql", db, "INSERT INTO stock (sku, quantity) SELECT CONCAT('sku-', seq), 1 FROM (WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < 100) SELECT seq FROM n) numbers")
			if b.Case.Code == "mended" {
				b.Exec("mysql", db, "CREATE UNIQUE INDEX by_sku ON stock (sku)")
			}
			a, other := b.session(db, "A"), b.session(db, "B")
			a.do("BEGIN")
			a.do("SELECT quantity FROM stock WHERE sku = 'sku-1' FOR UPDATE")
			rows := a.transaction(db, "trx_rows_locked")
			b.Evidence(Served, rows, "mysql: the transaction of A, which wants one row, has locked %d records", rows)
			other.do("BEGIN")
			err := other.try("SELECT quantity FROM stock WHERE sku = 'sku-2' FOR UPDATE NOWAIT")
			a.do("COMMIT")
			other.do("ROLLBACK")
			if err == nil {
				return Observation{Outcome: Safe}
			}
			b.Evidence(Answer, errno(err), "B wanted another SKU and was told: %v", err)
			b.must(errno(err) == errLockWait || errno(err) == errNoWait, "B is turned away because a lock is held")
			return Observation{Outcome: Busy}
		},
	}
}
