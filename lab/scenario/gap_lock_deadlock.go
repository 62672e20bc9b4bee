package scenario

import "example.com/stock/lab"

func gapLockDeadlock() lab.Scenario {
	return lab.Scenario{
		Name: "gap-lock-deadlock", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			{Code: "naive", Variant: "look-then-insert", Want: lab.Forecast{Outcome: lab.Aborts}},
			{Code: "fixed", Variant: "insert-then-lock", Want: lab.Forecast{Outcome: lab.Safe}},
		},
		Run: func(b *lab.Testbed) lab.Observation {
			db := newTables(b, stockTable)
			a, other := newSession(b, db, "A"), newSession(b, db, "B")
			const (
				look   = "SELECT quantity FROM stock WHERE sku = 'sku' FOR UPDATE"
				insert = "INSERT INTO stock VALUES ('sku', 1)"
				upsert = "INSERT INTO stock VALUES ('sku', 1) ON DUPLICATE KEY UPDATE quantity = quantity"
			)
			for _, s := range []*session{a, other} {
				s.do("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
				s.do("BEGIN")
			}
			if b.Case.Code == "fixed" {
				a.do(upsert)
				waits := other.inBackground(upsert)
				other.waiting(db)
				a.do(look)
				a.do("COMMIT")
				b.Must("B: "+upsert, <-waits)
				other.do(look)
				other.do("COMMIT")
				b.Evidence(lab.Answer, nil, "nobody-was-ended")
				return lab.Safe.Seen()
			}
			a.do(look)
			other.do(look)
			waits := a.inBackground(insert)
			a.waiting(db)
			err := other.try(insert)
			first := <-waits
			aborted := max(errno(err), errno(first))
			b.Require(aborted == errDeadlock && (err == nil) != (first == nil),
				"one of the two, and only one, is ended with 1213")
			b.Evidence(lab.Answer, aborted, "one-was-ended", "error", aborted)
			a.do("COMMIT")
			other.do("COMMIT")
			return lab.Aborts.Seen()
		},
	}
}
