package scenario

import (
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

func oldNodeAdopted() lab.Scenario {
	return lab.Scenario{
		Name: "old-sessions-node-adopted", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedZooKeeper},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "knows-it-by-its-guid"),
			byHand("fixed", lab.Safe, "compares-the-session"),
		},
		Run: reconnect,
	}
}

// reconnect breaks A's connection, and A begins a new session while the node of the old one still exists.
func reconnect(b *lab.Testbed) lab.Outcome {
	const guid = "_c_guid-of-A-lock-"
	p, addr := zkProxy(b), b.Server(lab.NeedZooKeeper).Addr
	old := newQueuerFor(b, "A", p.Addr(), 2*time.Second)
	create := func(q *queuer) string {
		path, err := q.create(q.dir+"/"+guid, []byte(q.who), zk.FlagEphemeral|zk.FlagSequence)
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
	return bothHold(b, line, believes, has)
}
