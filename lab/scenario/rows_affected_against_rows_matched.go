package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// The variants: what the driver reports as "rows affected". Go's driver counts changed rows, unless clientFoundRows is
// set. Java's counts matched rows, unless useAffectedRows is set.
const (
	changedRows = "counts-changed-rows"
	matchedRows = "counts-matched-rows"
)

func rowsAffected() lab.Scenario {
	return lab.Scenario{
		Name: "rows-affected-against-rows-matched", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat([]lab.Case{
			byHand("naive", lab.Aborts, changedRows),
			byHand("naive", lab.Oversells, matchedRows),
			byHand("fixed", lab.Safe, changedRows),
			byHand("fixed", lab.Safe, matchedRows),
		}, on("mysql", lab.Stated(lab.Safe, matchedRows, "mysql-table", "optimistic"))),
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != "" {
				return countRows(b)
			}
			dsn := "STOCK_MYSQL_DSN=root@tcp(" + b.Server(lab.NeedMySQL).Addr + ")/stock?clientFoundRows=true"
			apps := b.Apps(2, dsn)
			b.Stock(2)
			a := b.BeginPaused(apps[0], "A", lab.BeforeWrite, lab.Request{})
			other, inside := knock(b, apps[1], "B")
			b.Require(inside != b.Promise.Exclusive, "B is let in if there is no lock")
			a.Go().Reply()
			if inside {
				other.Go()
			}
			b.Require(a.Reply().Outcome == loadtest.Accepted, "A is served")
			other.Reply()
			return b.Judge().Seen()
		},
	}
}

// A countedLock is a row in a lock table. A client concludes from "rows affected" whether it has the lock.
type countedLock struct {
	b      *lab.Testbed
	take   string // statement, with the owner as its parameter
	beat   string // likewise
	owners map[string]*session
}

// countRows makes A take the lock and renew it, and B ask for it.
//
// The naive code takes the lock with one statement, whether the row exists or not. If another owner has the lock, the
// statement does not change the row, so no row changed but one matched. The naive heartbeat writes whole seconds, so a
// second one within a second changes nothing. The statements of the fixed code match only rows that they may change,
// and change every row that they match.
func countRows(b *lab.Testbed) lab.Outcome {
	db := newTables(b,
		"locks (name VARCHAR(64) PRIMARY KEY, owner VARCHAR(64) NOT NULL, expires_at DATETIME NOT NULL,"+
			" beats INT NOT NULL DEFAULT 0)",
	)
	found := "false"
	if b.Case.Variant == matchedRows {
		found = "true"
	}
	pool := secondPool(b, db, "?interpolateParams=true&clientFoundRows="+found)
	l := &countedLock{
		b: b,
		take: "INSERT INTO locks (name, owner, expires_at) VALUES ('sku', ?, NOW() + INTERVAL 1 MINUTE)" +
			" ON DUPLICATE KEY UPDATE owner = IF(expires_at < NOW(), VALUES(owner), owner)," +
			" expires_at = IF(owner = VALUES(owner), VALUES(expires_at), expires_at)",
		beat:   "UPDATE locks SET expires_at = NOW() + INTERVAL 1 MINUTE WHERE name = 'sku' AND owner = ?",
		owners: map[string]*session{"A": newSession(b, pool, "A"), "B": newSession(b, pool, "B")},
	}
	if b.Case.Code == "fixed" {
		b.Exec("mysql", db, "INSERT INTO locks (name, owner, expires_at) VALUES ('sku', '', '2000-01-01')")
		l.take = "UPDATE locks SET owner = ?, beats = beats + 1, expires_at = NOW() + INTERVAL 1 MINUTE" +
			" WHERE name = 'sku' AND expires_at < NOW()"
		l.beat = "UPDATE locks SET beats = beats + 1, expires_at = NOW() + INTERVAL 1 MINUTE" +
			" WHERE name = 'sku' AND owner = ?"
	}
	b.Require(l.rows("A", l.take) > 0, "A gets the lock")
	const beats = 5 // of which two are within one second
	for range beats {
		if l.rows("A", l.beat) == 0 {
			owner := l.owner()
			b.Evidence(lab.Served, owner, "gives-up-its-own-lock", "owner", owner)
			return lab.Aborts
		}
	}
	rows := l.rows("B", l.take)
	owner := l.owner()
	b.Evidence(lab.Hold, rows, "rows-for-the-second", "rows", rows, "owner", owner)
	if rows > 0 {
		return bothSell(b, "A", "B")
	}
	return lab.Safe
}

// rows runs a statement for who, and returns the driver's "rows affected".
func (l *countedLock) rows(who, statement string) int64 {
	result, err := l.owners[who].ExecContext(l.b.Ctx, statement, who)
	l.b.Must(who+": "+statement, err)
	n, err := result.RowsAffected()
	l.b.Must("rows affected", err)
	l.b.Note(who, "rows-affected", "statement", statement, "rows", n)
	return n
}

func (l *countedLock) owner() (name string) {
	l.b.Must("owner", l.owners["A"].QueryRowContext(l.b.Ctx, "SELECT owner FROM locks").Scan(&name))
	return name
}
