package lab

import "database/sql"

func transactionIsNoLock() Scenario {
	return Scenario{
		Name: "transaction-is-no-lock", Group: MySQL,
		Title:  Text{"Read, think, write in a transaction", "在事务里读、想、写"},
		Setup:  Text{"One unit in a table of MariaDB.", "MariaDB 表里库存 1 件。"},
		Forced: Text{"A and B begin; A reads, B reads; A writes and commits, B writes and commits. With FOR UPDATE the second read waits until the first transaction is over.", "A、B 各开启事务；A 读、B 读；A 写入并提交，B 写入并提交。使用 FOR UPDATE 时，第二次读要等第一个事务结束。"},
		Why: Text{
			"A transaction makes writes all or nothing; a plain SELECT in it locks nothing. READ COMMITTED and REPEATABLE READ differ in what B would read later, not in what it has read. (MariaDB from 11.6 on refuses the second write at REPEATABLE READ, with error 1020.)",
			"事务保证写入要么全做要么全不做；其中的普通 SELECT 不锁任何东西。读已提交与可重复读的差别只在于 B 以后会读到什么，而不在于它已经读到什么。（MariaDB 11.6 起，可重复读下第二次写会被拒绝，错误 1020。）",
		},
		Fix: Text{
			"SELECT ... FOR UPDATE, or one statement that checks and writes: UPDATE ... SET quantity = quantity - 1 WHERE quantity >= 1.",
			"SELECT ... FOR UPDATE，或用一条语句既检查又写入：UPDATE ... SET quantity = quantity - 1 WHERE quantity >= 1。",
		},
		Needs: []Need{NeedRedis, NeedMySQL},
		Cases: concat(
			[]Case{
				{Code: "naive", Variant: "READ COMMITTED", Want: Forecast{Outcome: Oversells}},
				{Code: "naive", Variant: "REPEATABLE READ", Want: Forecast{Outcome: Oversells}},
				{Code: "mended", Variant: "FOR UPDATE", Want: Forecast{Outcome: Safe}},
			},
			Cases("", "pessimistic", "atomic")),
		Predict: func(_ Case, p Promise) Forecast { return excludes(p, Safe) },
		Quick:   true,
		Run: func(b *Bench) Observation {
			if b.Case.Strategy != "" {
				apps := b.Apps(2)
				return twoBuyers(b, apps[0], apps[1])
			}
			level := sql.LevelRepeatableRead
			if b.Case.Variant == "READ COMMITTED" {
				level = sql.LevelReadCommitted
			}
			shop := newNaiveShop(b, 1)
			a, other := shop.begin("A", level), shop.begin("B", level)
			if b.Case.Variant != "FOR UPDATE" {
				a.read("")
				other.read("")
				a.write()
				a.commit()
				other.write()
				other.commit()
				return shop.verdict()
			}
			a.read("FOR UPDATE")
			err := other.tryRead("FOR UPDATE NOWAIT")
			b.must(errno(err) == errLockWait || errno(err) == errNoWait, "B is kept out while A works")
			a.write()
			a.commit()
			other.read("FOR UPDATE")
			other.write()
			other.commit()
			return shop.verdict()
		},
	}
}

// tryRead is read, with what the server says against it.
func (s *naiveSale) tryRead(locking string) error {
	err := s.tx.QueryRow("SELECT quantity FROM stock WHERE sku = 'sku' " + locking).Scan(&s.seen)
	s.shop.b.Note(s.who, "SELECT ... %s: error %d", locking, errno(err))
	return err
}
