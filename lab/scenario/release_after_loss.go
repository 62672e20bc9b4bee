package scenario

import (
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

func releaseAfterLoss() lab.Scenario {
	return lab.Scenario{
		Name: "release-after-loss", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{
				byHand("naive", lab.Oversells, "frees-the-row"),
				byHand("naive", lab.Oversells, "deletes-the-path"),
				byHand("fixed", lab.Safe, "frees-its-own-row"),
				byHand("fixed", lab.Safe, "deletes-its-own-node"),
			},
			lab.Cases(
				"", "redis-setnx", "redis-watchdog", "zk-ephemeral", "zk-sequential", "mysql-table",
				"mysql-for-update", "mysql-get-lock",
			),
		),
		Predict: excludes,
		Run: func(b *lab.Testbed) lab.Observation {
			switch b.Case.Variant {
			case "frees-the-row", "frees-its-own-row":
				return releaseRow(b)
			case "deletes-the-path", "deletes-its-own-node":
				return releaseNode(b)
			}
			apps := b.Apps(3)
			b.Stock(3)
			b.Watch(apps[2])
			a := b.BeginPaused(apps[0], "A", lab.AfterWrite, lab.Request{IgnoreLoss: true})
			b.Evict(apps[1])
			second := b.BeginPaused(apps[1], "B", lab.BeforeWrite, lab.Request{Wait: lab.For(lab.Patience)})
			a.Go().Reply()
			third := b.Begin(apps[2], "C", lab.Request{Pause: []string{lab.BeforeWrite}, Wait: lab.Once()})
			inside := third.PausedOrAnswered(lab.BeforeWrite)
			second.Go().Reply()
			if inside {
				b.Evidence(lab.Hold, nil, "third-is-let-in")
				third.Go().Reply()
			}
			j := b.Judge()
			if inside && !j.Lost() {
				return lab.Refuses.Seen() // two had the lock, and the store noticed
			}
			return j.Seen()
		},
	}
}

// releaseRow waits until the lease of A, a row in a lock table, has run out. Then B takes the row over, and A releases.
func releaseRow(b *lab.Testbed) lab.Observation {
	db := newTables(b,
		"locks (name VARCHAR(64) PRIMARY KEY, owner VARCHAR(64) NOT NULL, expires_at DATETIME(3) NOT NULL)",
	)
	b.Exec("mysql", db, "INSERT INTO locks VALUES ('sku', '', '2000-01-01')")
	take := func(s *session, lease time.Duration) bool {
		const query = "UPDATE locks SET owner = ?, expires_at = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND" +
			" WHERE name = 'sku' AND expires_at <= UTC_TIMESTAMP(3)"
		result, err := s.ExecContext(b.Ctx, query, s.who, lease.Microseconds())
		b.Must(s.who+": take", err)
		n, err := result.RowsAffected()
		b.Must(s.who+": take", err)
		return n > 0
	}
	a, next, third := newSession(b, db, "A"), newSession(b, db, "B"), newSession(b, db, "C")
	b.Require(take(a, 100*time.Millisecond), "A gets the lock")
	b.Note("A", "locked", "key", "sku")
	b.Eventually("B takes the row over", func() bool { return take(next, longLease) })
	b.Note("B", "locked", "key", "sku")
	if b.Case.Code == "naive" {
		a.do("UPDATE locks SET owner = '', expires_at = '2000-01-01' WHERE name = 'sku'")
	} else {
		a.do("UPDATE locks SET owner = '', expires_at = '2000-01-01' WHERE name = 'sku' AND owner = 'A'")
	}
	return thirdComes(b, take(third, longLease))
}

// releaseNode expires A's session. Then B creates the node again, and A releases in a new session.
func releaseNode(b *lab.Testbed) lab.Observation {
	p, addr := zkProxy(b), b.Server(lab.NeedZooKeeper).Addr
	a := newQueuerFor(b, "A", p.Addr(), time.Second)
	next, third := newQueuer(b, "B", addr), newQueuer(b, "C", addr)
	flags := int32(zk.FlagEphemeral)
	if b.Case.Code == "fixed" {
		flags |= zk.FlagSequence
	}
	// The owner of the only node, or of the first one, has the lock.
	take := func(q *queuer) (path string, held bool) {
		path, err := q.conn.Create(q.dir+"/lock-", []byte(q.who), flags, zk.WorldACL(zk.PermAll))
		if err == zk.ErrNodeExists {
			return "", false
		}
		b.Must(q.who+": create", err)
		return path, path == q.dir+"/"+q.line()[0]
	}
	path, held := take(a)
	b.Require(held, "A gets the lock")
	b.Note("A", "locked", "key", path)
	from := time.Now()
	p.Silence(wire.ToServer, wire.ToClient)
	b.Eventually("the session of A expires", func() bool { return len(next.line()) == 0 })
	b.Interval("wire", lab.Fault, "A", from, "old-session-expires", "after", time.Since(from))
	taken, held := take(next)
	b.Require(held, "B gets the lock")
	b.Note("B", "locked", "key", taken)
	again := newQueuer(b, "A", addr)
	err := again.conn.Delete(path, -1)
	b.Note("A", "deleted", "node", path, "error", err)
	_, held = take(third)
	return thirdComes(b, held)
}

// thirdComes ends both cases: C has asked for the lock of B.
func thirdComes(b *lab.Testbed, held bool) lab.Observation {
	if held {
		b.Evidence(lab.Hold, nil, "third-is-let-in")
		return bothSell(b, "B", "C")
	}
	b.Evidence(lab.Answer, nil, "third-is-kept-out")
	return lab.Safe.Seen()
}
