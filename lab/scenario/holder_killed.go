package scenario

import (
	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func holderKilled() lab.Scenario {
	return lab.Scenario{
		Name:  "holder-killed",
		Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL, lab.NeedRedlock},
		Slow:  true,
		Cases: append(lab.Cases(
			"", "redis-setnx-del", "redis-setnx-watch", "redis-setnx", "redis-rlock", "redis-watchdog",
			"redlock", "zk-ephemeral", "zk-sequential", "mysql-table", "mysql-for-update",
			"mysql-get-lock", "pessimistic",
		), byHand("naive", lab.Blocks, "a-row-without-a-time-limit")),
		Predict: freed,
		Run:     leavesItsRow,
		Together: func(beds []*lab.Testbed) []lab.Outcome {
			var apps []*lab.App // the same for all
			for _, b := range beds {
				apps = b.Apps(2, "STOCK_LOCK_WATCHDOG_LEASE=10s")
				b.Stock(2)
			}
			for _, b := range beds {
				b.BeginPaused(apps[0], "A", lab.BeforeWrite, lab.Request{})
			}
			killed := lab.KillFor(beds, apps[0])
			for _, b := range beds {
				b.Watch(apps[1])
				b.Begin(apps[1], "B", lab.Request{Wait: lab.For(lab.Patience)})
			}
			return lab.Each(beds, func(b *lab.Testbed) lab.Outcome {
				next := b.Calls()[1]
				if reply := next.Reply(); reply.Outcome != loadtest.Accepted {
					b.Fatalf("%s: B was not let in within %v: %s", b.Case, lab.Patience, lab.Told(reply))
				}
				after := next.Record().AcquiredAt.Sub(killed)
				b.Evidence(lab.Waited, after, "next-holder", "after", after)
				if b.Judge().Lost() {
					b.Fatalf("%s: stock was lost", b.Case)
				}
				return b.Delayed(after)
			})
		},
	}
}

// leavesItsRow kills A, who has inserted a row into a lock table: the client that inserts it has the lock.
func leavesItsRow(b *lab.Testbed) lab.Outcome {
	db := newTables(b, "locks (name VARCHAR(64) PRIMARY KEY, owner VARCHAR(64) NOT NULL)")
	const insert = "INSERT INTO locks VALUES ('sku', ?)"
	a, other := newSession(b, db, "A"), newSession(b, db, "B")
	a.do(insert, "A")
	b.Exec("mysql", db, "KILL CONNECTION ?", a.id)
	b.Evidence(lab.Served, a.id, "connection-is-gone")
	err := other.try(insert, "B")
	b.Require(errno(err) == errDuplicate, "B is told 1062")
	b.Evidence(lab.Answer, errno(err), "was-told", "who", "B", "answer", err)
	b.Evidence(lab.Served, b.Int("mysql", db, "SELECT COUNT(*) FROM locks WHERE owner = 'A'"), "row-is-left")
	return lab.Blocks
}
