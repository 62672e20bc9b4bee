package lab

func lockWaitHalfDone() Scenario {
	return Scenario{
		Name: "lock-wait-timeout-half-done", Group: MySQL,
		Title: Text{"Error 1205 with the work half done", "错误 1205：事情只做了一半"},
		Setup: Text{
			"Two SKUs in a table of MariaDB; a row is waited for 1 s at most (innodb_lock_wait_timeout = 1).",
			"MariaDB 表里有两个 SKU；等行锁最多 1 秒（innodb_lock_wait_timeout = 1）。",
		},
		Forced: Text{
			"B holds the second SKU. A takes one of the first, asks for the second and is told 1205. The naive code logs it and commits; the mended code rolls back.",
			"B 占着第二个 SKU。A 扣了第一个，再请求第二个，得到 1205。幼稚的代码记一条日志就提交；改正后的代码回滚。",
		},
		Why: Text{
			"1205 ends the statement, not the transaction: what was done before stands, and its rows stay locked. 1213 is the other way: it has rolled everything back.",
			"1205 结束的是语句，不是事务：之前做的仍在，那些行仍被锁着。1213 则相反：一切都已回滚。",
		},
		Fix: Text{
			"ROLLBACK on any error, then repeat the whole transaction (or set innodb_rollback_on_timeout).",
			"出任何错误都 ROLLBACK，然后整个事务重来（或设置 innodb_rollback_on_timeout）。",
		},
		Needs: []Need{NeedRedis, NeedMySQL},
		Cases: []Case{
			{Code: "naive", Variant: "commits what there is", Want: Forecast{Outcome: HalfDone}},
			{Code: "mended", Variant: "rolls back", Want: Forecast{Outcome: Aborts}},
		},
		Quick: true,
		Run: func(b *Bench) Observation {
			db := b.DB()
			b.Exec("mysql", db, "CREATE TABLE stock (sku INT PRIMARY KEY, quantity INT NOT NULL) ENGINE=InnoDB")
			b.Exec("mysql", db, "INSERT INTO stock VALUES (1, 10), (2, 10)")
			const take = "UPDATE stock SET quantity = quantity - 1 WHERE sku = ?"
			a, other := b.session(db, "A"), b.session(db, "B")
			other.do("BEGIN")
			other.do(take, 2)
			a.do("SET SESSION innodb_lock_wait_timeout = 1")
			a.do("BEGIN")
			a.do(take, 1)
			err := a.try(take, 2)
			b.must(errno(err) == errLockWait, "A is told 1205")
			b.Evidence(Answer, errno(err), "A was told: %v", err)
			rows := a.transaction(db, "trx_rows_modified")
			b.Evidence(Served, rows, "mysql: the transaction of A is open, with %d row changed", rows)
			if b.Case.Code == "mended" {
				a.do("ROLLBACK")
			} else {
				a.do("COMMIT")
			}
			other.do("ROLLBACK")
			one := b.Int("mysql", db, "SELECT quantity FROM stock WHERE sku = 1")
			two := b.Int("mysql", db, "SELECT quantity FROM stock WHERE sku = 2")
			b.Evidence(Balance, map[string]int64{"1": one, "2": two}, "of 10 and 10 there are %d and %d", one, two)
			if one != two {
				return Observation{Outcome: HalfDone}
			}
			return Observation{Outcome: Aborts}
		},
	}
}
