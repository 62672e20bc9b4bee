package scenario

import (
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func oldNodeAdopted() lab.Scenario {
	return lab.Scenario{
		Name: "old-sessions-node-adopted", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: slices.Concat(
			[]lab.Case{
				byHand("naive", lab.Oversells, "knows-it-by-its-guid"),
				byHand("fixed", lab.Safe, "compares-the-session"),
			},
			lab.Cases("", "zk-sequential", "zk-ephemeral"),
		),
		Predict:  freed,
		Together: strategiesTogether(comeBack, reconnect),
	}
}

// reconnect breaks A's connection, and A begins a new session while the node of the old one still exists.
func reconnect(b *lab.Testbed) lab.Observation {
	const guid = "_c_guid-of-A-lock-"
	p, addr := zkProxy(b), b.Server(lab.NeedZooKeeper).Addr
	old := newQueuerFor(b, "A", p.Addr(), 2*time.Second)
	create := func(q *queuer) string {
		path, err := q.conn.Create(q.dir+"/"+guid, []byte(q.who), zk.FlagEphemeral|zk.FlagSequence,
			zk.WorldACL(zk.PermAll))
		b.Must(q.who+": create", err)
		node := strings.TrimPrefix(path, q.dir+"/")
		b.Note(q.who, "created", "node", node, "error", err)
		return node
	}
	ghost := create(old)
	from := time.Now()
	p.Silence(wire.ToServer, wire.ToClient)
	a, other := newQueuer(b, "A", addr), newQueuer(b, "B", addr)
	b.Note("A", "new-session")
	line := a.line()
	b.Require(len(line) == 1 && strings.HasPrefix(line[0], guid), "A finds a node with its guid")
	_, mine := a.owner(line[0])
	b.Evidence(lab.Served, mine, "found-its-guid", "node", line[0], "own", mine)
	held := line[0]
	if b.Case.Code == "fixed" && !mine {
		// The guid shows that A's old session made the node, so A may delete it.
		a.leave(held)
		held = create(a)
	}
	b.Eventually("the old session has expired", func() bool { return !slices.Contains(other.line(), ghost) })
	b.Interval("wire", lab.Fault, "A", from, "old-session-expires", "after", time.Since(from))
	next, err := other.enter()
	b.Must("B", err)
	line = other.line()
	believes, has := held == ghost || line[0] == held, line[0] == next
	b.Evidence(lab.Hold, line, "both-hold", "a", believes, "b", has)
	if believes && has {
		return bothSell(b, "A", "B")
	}
	return lab.Safe.Seen()
}

// comeBack kills an instance that holds locks, and restarts it under the same name while its nodes still exist. Its
// customers ask again.
func comeBack(beds []*lab.Testbed) (seen []lab.Observation) {
	const session, sure = 4 * time.Second, 2 * time.Second
	var apps []*lab.App
	env := "STOCK_ZOOKEEPER_SESSION_TIMEOUT=" + session.String()
	for _, b := range beds {
		apps = b.Apps(2, env)
		b.Stock(2)
		b.Watch(apps[1])
	}
	for _, b := range beds {
		b.BeginPaused(apps[0], "A", lab.BeforeWrite, lab.Request{})
	}
	killed := lab.KillFor(beds, apps[0])
	apps = beds[0].Apps(2, env)
	for _, b := range beds {
		b.Note(apps[0].Name, "is-back")
		b.Begin(apps[0], "again", lab.Request{Wait: lab.For(lab.Patience), Pause: []string{lab.BeforeWrite}})
	}
	for _, b := range beds {
		b.Calls()[1].PausedOrAnswered(lab.BeforeWrite)
	}
	time.Sleep(time.Until(killed.Add(session + sure))) // by then the old session has expired
	for _, b := range beds {
		again := b.Calls()[1]
		if !again.PausedOrAnswered(lab.BeforeWrite) {
			b.Judge()
			seen = append(seen, lab.Refuses.Seen()) // it got the lock by the old node, and lost it with the node
			continue
		}
		next := b.Begin(apps[1], "B", lab.Request{Wait: lab.Once(), Pause: []string{lab.BeforeWrite}})
		inside := next.PausedOrAnswered(lab.BeforeWrite)
		again.Go().Reply()
		if inside {
			b.Evidence(lab.Hold, nil, "second-is-let-in")
			next.Go().Reply()
		}
		b.Require(again.Reply().Outcome == loadtest.Accepted, "A is served")
		after := again.Record().AcquiredAt.Sub(killed)
		b.Evidence(lab.Waited, after, "let-in-again", "after", after)
		j := b.Judge()
		if inside || j.Lost() {
			seen = append(seen, lab.Oversells.Seen())
		} else {
			seen = append(seen, lab.Delayed(after))
		}
	}
	return seen
}
