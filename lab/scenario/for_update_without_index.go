package scenario

import "example.com/stock/lab"

func forUpdateWithoutIndex() lab.Scenario {
	return lab.Scenario{
		Name: "for-update-without-index", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Busy, "no-index"),
			byHand("fixed", lab.Safe, "unique-index"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			db := newTables(b,
				"stock (id INT AUTO_INCREMENT PRIMARY KEY, sku VARCHAR(64) NOT NULL, quantity INT NOT NULL)",
			)
			b.Exec("mysql", db, "INSERT INTO stock (sku, quantity) SELECT CONCAT('sku-', seq), 1 FROM "+
				"(WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < 100) "+
				"SELECT seq FROM n) numbers")
			if b.Case.Code == "fixed" {
				b.Exec("mysql", db, "CREATE UNIQUE INDEX by_sku ON stock (sku)")
			}
			a, other := newSession(b, db, "A"), newSession(b, db, "B")
			a.do("BEGIN")
			a.do("SELECT quantity FROM stock WHERE sku = 'sku-1' FOR UPDATE")
			rows := a.transaction(db, "trx_rows_locked")
			b.Evidence(lab.Served, rows, "records-are-locked", "records", rows)
			other.do("BEGIN")
			err := other.try("SELECT quantity FROM stock WHERE sku = 'sku-2' FOR UPDATE NOWAIT")
			a.do("COMMIT")
			other.do("ROLLBACK")
			if err == nil {
				return lab.Safe
			}
			b.Evidence(lab.Answer, errno(err), "wanted-another-sku", "answer", err)
			b.Require(lockIsHeld(err), "B is turned away because a lock is held")
			return lab.Busy
		},
	}
}
