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
				byHand("naive", lab.Oversells, "deletes-the-path"),
				byHand("fixed", lab.Safe, "deletes-its-own-node"),
			},
			lab.Cases(
				"", "redis-setnx", "redis-watchdog", "zk-ephemeral", "zk-sequential", "mysql-table",
				"mysql-for-update", "mysql-get-lock",
			),
		),
		Predict: excludes,
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != "" {
				return releaseNode(b)
			}
			apps := b.Apps(3)
			b.Stock(3)
			b.Watch(apps[2])
			a := b.BeginPaused(apps[0], "A", lab.AfterWrite, lab.Request{IgnoreLoss: true})
			b.Evict(apps[1])
			second := b.BeginPaused(apps[1], "B", lab.BeforeWrite, lab.Request{Wait: lab.For(lab.Patience)})
			a.Go().Reply()
			inside := thirdIsLetIn(b, apps[2], second)
			j := b.Judge()
			if inside && !j.Lost() {
				return lab.Refuses // two had the lock, and the store noticed
			}
			return j.Seen()
		},
	}
}

// releaseNode expires A's session. Then B creates the node again, and A releases in a new session.
func releaseNode(b *lab.Testbed) lab.Outcome {
	p, addr := zkProxy(b), b.Server(lab.NeedZooKeeper).Addr
	a := newQueuerFor(b, "A", p.Addr(), time.Second)
	next, third := newQueuer(b, "B", addr), newQueuer(b, "C", addr)
	flags := int32(zk.FlagEphemeral)
	if b.Case.Code == "fixed" {
		flags |= zk.FlagSequence
	}
	// The owner of the only node, or of the first one, has the lock.
	take := func(q *queuer) (path string, held bool) {
		path, err := q.create(q.dir+"/lock-", []byte(q.who), flags)
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
	if _, held = take(third); held {
		b.Evidence(lab.Hold, nil, "third-is-let-in")
		return bothSell(b, "B", "C")
	}
	b.Evidence(lab.Answer, nil, "third-is-kept-out")
	return lab.Safe
}
