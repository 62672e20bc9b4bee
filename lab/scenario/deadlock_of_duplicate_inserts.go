package scenario

import (
	"database/sql"
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func duplicateInserts() lab.Scenario {
	return lab.Scenario{
		Name: "deadlock-of-duplicate-inserts", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{
				{Code: "naive", Variant: "inserts", Want: lab.Forecast{Outcome: lab.Aborts}},
				{Code: "fixed", Variant: "inserts-again", Want: lab.Forecast{Outcome: lab.Safe}},
				{Code: "fixed", Variant: "updates-a-row-that-is-there", Want: lab.Forecast{Outcome: lab.Safe}},
			},
			lab.Stated(lab.Safe, "", "mysql-table", "mysql-for-update"),
		),
		Run: func(b *lab.Testbed) lab.Observation {
			if b.Case.Code != "" {
				return insertTheSameKey(b)
			}
			p := b.Proxy(lab.NeedMySQL)
			apps := b.Apps(2, b.Via(lab.NeedMySQL))
			b.Stock(2)
			insert, own := "INSERT INTO locks", "INSERT INTO locks (name, token, who, fence, expires_at)"+
				" VALUES (?, 'lab', 'lab', 0, UTC_TIMESTAMP(6))"
			if b.Case.Strategy == "mysql-for-update" {
				insert, own = "INSERT IGNORE INTO lock_rows", "INSERT INTO lock_rows (name) VALUES (?)"
			}
			ofThisKey := func(m []byte) bool { return wire.Contains(insert)(m) && wire.Contains(b.SKU)(m) }
			var snares []*wire.Snare
			for i, who := range []string{"B", "C"} {
				snare := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: ofThisKey})
				b.Begin(apps[i], who, lab.Request{Wait: lab.For(lab.Patience)})
				b.Sprung(snare, "insert-is-held-back", "who", who)
				snares = append(snares, snare)
			}
			db := b.ServiceDB()
			a, before := newSession(b, db, "A"), deadlocks(b, db)
			a.do("BEGIN")
			a.do(own, b.SKU)
			for _, snare := range snares {
				snare.Release()
			}
			b.Eventually("both wait for the row", func() bool {
				time.Sleep(trxIdle)
				var n int
				b.Must("innodb_trx", db.QueryRowContext(b.Ctx, "SELECT COUNT(*) FROM information_schema.innodb_trx"+
					" WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE ?", "%"+b.SKU+"%").Scan(&n))
				return n == len(snares)
			})
			a.do("ROLLBACK")
			for _, c := range b.Calls() {
				if reply := c.Reply(); reply.Outcome != loadtest.Accepted {
					b.Judge()
					return lab.Aborts.Seen()
				}
			}
			n := deadlocks(b, db) - before
			b.Evidence(lab.Served, n, "deadlocks", "deadlocks", n)
			b.Require(n > 0, "the two deadlock")
			return b.Judge().Seen()
		},
	}
}

// deadlocks returns how many deadlocks the server has resolved so far.
func deadlocks(b *lab.Testbed, db *sql.DB) int64 {
	return b.Int("mysql", db, "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'")
}

// insertTheSameKey makes A, B and C take the lock of one SKU by an INSERT, and A roll back.
//
// B and C find A's uncommitted row, and each waits for a shared lock on it, for the check for duplicates. After A's
// rollback both get the shared lock, and then each waits for the exclusive lock of the row.
func insertTheSameKey(b *lab.Testbed) lab.Observation {
	db := b.DB()
	b.Exec("mysql", db, "CREATE TABLE locks (name VARCHAR(64) PRIMARY KEY, owner VARCHAR(64) NOT NULL) ENGINE=InnoDB")
	take := "INSERT INTO locks VALUES ('sku', ?)"
	rowFirst := b.Case.Variant == "updates-a-row-that-is-there"
	if rowFirst {
		b.Exec("mysql", db, "INSERT INTO locks VALUES ('sku', '')")
		take = "UPDATE locks SET owner = ? WHERE name = 'sku' AND owner = ''"
	}
	a := newSession(b, db, "A")
	a.do("BEGIN")
	a.do(take, "A")
	waiters := []*session{newSession(b, db, "B"), newSession(b, db, "C")}
	var done []<-chan error
	for _, s := range waiters {
		s.do("BEGIN")
		done = append(done, s.inBackground(take, s.who))
		s.waiting(db)
	}
	a.do("ROLLBACK")
	if rowFirst {
		b.Must("B: "+take, <-done[0]) // the first in the queue for the row
		waiters[0].do("COMMIT")
		b.Must("C: "+take, <-done[1])
		waiters[1].do("COMMIT")
		owner := b.Int("mysql", db, "SELECT COUNT(*) FROM locks WHERE owner = 'B'")
		b.Require(owner == 1, "B has the lock")
		b.Evidence(lab.Answer, nil, "waited-and-nobody-was-ended")
		return lab.Safe.Seen()
	}
	errs := []error{<-done[0], <-done[1]}
	out := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	b.Require(out >= 0 && errs[1-out] == nil && errno(errs[out]) == errDeadlock,
		"one of the two, and only one, is ended with 1213")
	b.Evidence(lab.Answer, errDeadlock, "one-was-ended", "error", errDeadlock)
	waiters[1-out].do("COMMIT")
	if b.Case.Code == "naive" {
		return lab.Aborts.Seen()
	}
	ended := waiters[out]
	ended.do("BEGIN")
	err := ended.try(take, ended.who)
	b.Require(errno(err) == errDuplicate, "it is told that the lock is held")
	b.Evidence(lab.Answer, errno(err), "was-told", "who", ended.who, "answer", err)
	ended.do("ROLLBACK")
	return lab.Safe.Seen()
}
