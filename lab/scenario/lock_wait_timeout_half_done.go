package scenario

import "example.com/stock/lab"

func lockWaitHalfDone() lab.Scenario {
	return lab.Scenario{
		Name: "lock-wait-timeout-half-done", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.HalfDone, "commits-what-there-is"),
			byHand("fixed", lab.Aborts, "rolls-back"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			db := newTables(b, "stock (sku INT PRIMARY KEY, quantity INT NOT NULL)")
			b.Exec("mysql", db, "INSERT INTO stock VALUES (1, 10), (2, 10)")
			const take = "UPDATE stock SET quantity = quantity - 1 WHERE sku = ?"
			a, other := newSession(b, db, "A"), newSession(b, db, "B")
			other.do("BEGIN")
			other.do(take, 2)
			a.do("SET SESSION innodb_lock_wait_timeout = 1")
			a.do("BEGIN")
			a.do(take, 1)
			err := a.try(take, 2)
			b.Require(errno(err) == errLockWait, "A is told 1205")
			b.Evidence(lab.Answer, errno(err), "was-told", "who", "A", "answer", err)
			rows := a.transaction(db, "trx_rows_modified")
			b.Evidence(lab.Served, rows, "transaction-is-open", "rows", rows)
			if b.Case.Code == "fixed" {
				a.do("ROLLBACK")
			} else {
				a.do("COMMIT")
			}
			other.do("ROLLBACK")
			one := b.Int("mysql", db, "SELECT quantity FROM stock WHERE sku = 1")
			two := b.Int("mysql", db, "SELECT quantity FROM stock WHERE sku = 2")
			b.Evidence(lab.Balance, map[string]int64{"1": one, "2": two}, "left-of-10-and-10", "first", one, "second",
				two)
			if one != two {
				return lab.HalfDone
			}
			return lab.Aborts
		},
	}
}
