package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func lockRowLeft() lab.Scenario {
	return lab.Scenario{
		Name:  "lock-row-left-after-a-crash",
		Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{byHand("naive", lab.Blocks, "no-time-limit")},
			lab.Cases("", "mysql-table"),
		),
		Predict: freed,
		Run: func(b *lab.Testbed) lab.Observation {
			if b.Case.Strategy != "" {
				apps := b.Apps(2)
				b.Stock(1)
				b.BeginPaused(apps[0], "A", lab.AfterLock, lab.Request{})
				killed := b.Kill(apps[0])
				reply := b.Sell(apps[1], "B", lab.Request{Wait: lab.For(lab.Patience)})
				if reply.Outcome != loadtest.Accepted {
					b.Fatalf("B was not let in within %v: %s", lab.Patience, lab.Told(reply))
				}
				after := b.Calls()[1].Record().AcquiredAt.Sub(killed)
				b.Evidence(lab.Waited, after, "let-in-after-crash", "after", after)
				b.Judge()
				return lab.Observation{Outcome: lab.Delays, After: after}
			}
			db := newTables(b, "locks (name VARCHAR(64) PRIMARY KEY, owner VARCHAR(64) NOT NULL)")
			const insert = "INSERT INTO locks VALUES ('sku', ?)"
			a, other := newSession(b, db, "A"), newSession(b, db, "B")
			a.do(insert, "A")
			b.Exec("mysql", db, "KILL CONNECTION ?", a.id)
			b.Evidence(lab.Served, a.id, "connection-is-gone")
			err := other.try(insert, "B")
			b.Require(errno(err) == errDuplicate, "B is told 1062")
			b.Evidence(lab.Answer, errno(err), "was-told", "who", "B", "answer", err)
			rows := b.Int("mysql", db, "SELECT COUNT(*) FROM locks WHERE owner = 'A'")
			b.Evidence(lab.Served, rows, "row-is-left")
			return lab.Blocks.Seen()
		},
	}
}
