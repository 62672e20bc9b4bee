package scenario

import (
	"database/sql"
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func commitUnknown() lab.Scenario {
	return lab.Scenario{
		Name: "commit-outcome-unknown", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{
				byHand("naive", lab.Duplicates, replyLost),
				byHand("fixed", lab.Safe, replyLost),
				byHand("fixed", lab.Safe, requestLost),
			},
			on("mysql", lab.Stated(
				lab.Safe, replyLost, "none", "redis-setnx", "redis-watchdog", "zk-sequential", "mysql-table",
				"mysql-for-update", "mysql-get-lock", "segmented", "pessimistic", "optimistic", "atomic",
				"merged",
			)),
			on("mysql", lab.Stated(lab.Safe, requestLost, "redis-watchdog", "pessimistic", "atomic",
				"merged")),
		),
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != "" {
				return commitWithoutAnswer(b)
			}
			p := b.Proxy(lab.NeedMySQL)
			app := b.Apps(1, b.Via(lab.NeedMySQL))[0]
			b.Stock(3)
			a := b.BeginPaused(app, "A", lastPoint(b.Case.Strategy), lab.Request{Wait: lab.For(lab.Patience)})
			snare := loseCommit(b, p)
			a.Go()
			b.Sprung(snare, b.Case.Variant)
			if unknown := a.Reply().Problem == "outcome_unknown"; !unknown || !a.Settle() {
				again := b.Sell(app, "again", lab.Request{Wait: lab.For(lab.Patience)})
				b.Require(again.Outcome == loadtest.Accepted, "A tries again, and is served")
			}
			j := b.Judge()
			b.Require(len(j.Orders) > 0, "A has what it wanted")
			if len(j.Orders) > 1 {
				return lab.Duplicates
			}
			return lab.Safe
		},
	}
}

// loseCommit makes the next COMMIT through p get no reply.
func loseCommit(b *lab.Testbed, p *wire.Proxy) *wire.Snare {
	do := wire.CutReply
	if b.Case.Variant == requestLost {
		do = wire.Cut
	}
	return b.Trap(p, wire.Trap{On: wire.ToServer, Do: do, Match: commits})
}

// commitWithoutAnswer sells one unit to A, whose COMMIT gets no reply. The naive code takes that for a failure and
// repeats the transaction. The fixed code chose the order's id beforehand, and first looks for it with a locking read,
// which waits for the end of a transaction that is writing it.
func commitWithoutAnswer(b *lab.Testbed) lab.Outcome {
	db := newTables(b, stockTable, "orders (seq INT AUTO_INCREMENT PRIMARY KEY, id VARCHAR(64) NOT NULL UNIQUE)")
	b.Exec("mysql", db, "INSERT INTO stock VALUES ('sku', 3)")
	p, via := behindProxy(b, db)
	id := func(try string) string {
		if b.Case.Code == "naive" {
			return "order of A, " + try + " try"
		}
		return "order of A"
	}
	sell := func(pool *sql.DB, id string) error {
		a := newSession(b, pool, "A")
		a.do("BEGIN")
		a.do("UPDATE stock SET quantity = quantity - 1 WHERE sku = 'sku' AND quantity >= 1")
		a.do("INSERT INTO orders (id) VALUES (?)", id)
		return a.exec(b.Ctx, "COMMIT")
	}
	snare := loseCommit(b, p)
	err := sell(via, id("first"))
	b.Sprung(snare, b.Case.Variant)
	b.Require(err != nil && errno(err) == 0, "A has an error, and not from the server")
	b.Evidence(lab.Answer, err.Error(), "was-told", "who", "A", "answer", err)
	found := int64(0)
	if b.Case.Code == "fixed" {
		found = b.Int("A", db, "SELECT COUNT(*) FROM orders WHERE id = 'order of A' FOR UPDATE")
		b.Evidence(lab.Answer, found, "orders-with-its-id", "orders", found)
	}
	if found == 0 {
		b.Note("A", "asks-again")
		b.Must("sell", sell(db, id("second")))
	}
	sold, _ := books(b, "mysql", db, 3)
	if sold != 1 {
		return lab.Duplicates
	}
	return lab.Safe
}
