package scenario

import (
	"database/sql"
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func batchDeadlock() lab.Scenario {
	return lab.Scenario{
		Name: "batch-in-a-deadlock", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{
				{Code: "naive", Variant: "tells-the-error", Want: lab.Forecast{Outcome: lab.Aborts}},
				{Code: "fixed", Variant: "makes-the-batch-again", Want: lab.Forecast{Outcome: lab.Safe}},
			},
			on("mysql", lab.Stated(lab.Safe, "", "merged")),
		),
		Run: func(b *lab.Testbed) lab.Observation {
			if b.Case.Code != "" {
				return sellInADeadlock(b)
			}
			h := holdABatch(b, 100)
			snare, ids := h.holdOrders()
			db := b.ServiceDB()
			before := deadlocks(b, db)
			other := newHeavy(b, db)
			takeID(other, ids[crowd*2/3])
			snare.Release()
			b.Eventually("the batch waits for the order of X",
				func() bool { return waitsFor(b, db, "%INSERT INTO orders%") })
			other.do("SELECT quantity FROM stock WHERE sku = ? FOR UPDATE", b.SKU)
			other.do("ROLLBACK")
			served := h.crowd.Count()[string(loadtest.Accepted)]
			n := deadlocks(b, db) - before
			b.Evidence(lab.Served, n, "deadlocks", "deadlocks", n)
			b.Require(n > 0, "the batch is ended by a deadlock")
			b.Require(b.Judge().Seen().Outcome == lab.Safe, "no stock is lost")
			if served == crowd {
				return lab.Safe.Seen()
			}
			return lab.Aborts.Seen()
		},
	}
}

// newHeavy opens a transaction that has written more than a batch writes. In a deadlock InnoDB rolls back the
// transaction that is cheaper to undo.
func newHeavy(b *lab.Testbed, db *sql.DB) *session {
	name := databaseOf(b, b.DB())
	b.Exec("mysql", db, "CREATE TABLE "+name+".heavy (n INT PRIMARY KEY) ENGINE=InnoDB")
	x := newSession(b, db, "X")
	x.do("BEGIN")
	x.do("INSERT INTO " + name + ".heavy" +
		" WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 500) SELECT n FROM t")
	return x
}

// waitsFor reports whether another connection is executing a statement that matches the pattern like.
func waitsFor(b *lab.Testbed, db *sql.DB, like string) bool {
	var n int
	b.Must("processlist", db.QueryRowContext(b.Ctx,
		"SELECT COUNT(*) FROM information_schema.PROCESSLIST"+
			" WHERE INFO LIKE ? AND ID <> CONNECTION_ID()", like).Scan(&n))
	return n > 0
}

// sellInADeadlock sells to a crowd in one transaction, while X has written an order with the id of one of them and
// waits for the row of the stock. Error 1213 rolls the whole transaction back. The naive code returns the error to
// every customer; the fixed code repeats the transaction.
func sellInADeadlock(b *lab.Testbed) lab.Observation {
	db := b.DB()
	b.Exec("mysql", db, "CREATE TABLE stock (sku VARCHAR(64) PRIMARY KEY, quantity INT NOT NULL) ENGINE=InnoDB")
	b.Exec("mysql", db, "CREATE TABLE orders (id VARCHAR(64) PRIMARY KEY) ENGINE=InnoDB")
	b.Exec("mysql", db, "INSERT INTO stock VALUES ('sku', 100)")
	s, insert := newSession(b, db, "C"), "INSERT INTO orders VALUES ('"+naiveOrder(0)+"')"
	for i := 1; i < crowd; i++ {
		insert += ", ('" + naiveOrder(i) + "')"
	}
	deduct := func() {
		s.do("BEGIN")
		s.do("UPDATE stock SET quantity = quantity - ? WHERE sku = 'sku'", crowd)
	}
	x := newHeavy(b, db)
	x.do("INSERT INTO orders VALUES ('" + naiveOrder(20) + "')")
	deduct()
	told := s.inBackground(insert)
	s.waiting(db)
	x.do("SELECT quantity FROM stock WHERE sku = 'sku' FOR UPDATE")
	x.do("ROLLBACK")
	err := <-told
	b.Require(errno(err) == errDeadlock, "the batch is ended with 1213")
	b.Evidence(lab.Answer, err.Error(), "was-told", "who", "C", "answer", err)
	if b.Case.Code == "fixed" {
		deduct()
		s.do(insert)
		s.do("COMMIT")
	}
	left := b.Int("mysql", db, "SELECT quantity FROM stock")
	b.Evidence(lab.Balance, left, "balance", "initial", 100, "sold", 100-left, "left", left)
	counted(b, int(100-left), crowd)
	if 100-left == crowd {
		return lab.Safe.Seen()
	}
	return lab.Aborts.Seen()
}
