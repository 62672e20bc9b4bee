package scenario

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func deleteFails() lab.Scenario {
	return lab.Scenario{
		Name: "delete-that-fails-on-release", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: slices.Concat(
			[]lab.Case{
				{Code: "naive", Variant: "deletes-once", Want: lab.Forecast{Outcome: lab.Blocks}},
				{Code: "fixed", Variant: "deletes-until-it-is-gone", Want: lab.Forecast{Outcome: lab.Safe}},
			},
			lab.Stated(lab.Safe, "", "zk-sequential", "zk-ephemeral"),
		),
		Run: func(b *lab.Testbed) lab.Observation {
			if b.Case.Code != "" {
				return releaseOverBrokenLink(b)
			}
			p := b.Proxy(lab.NeedZooKeeper)
			first, second := b.Apps(1, b.Via(lab.NeedZooKeeper), "STOCK_ZOOKEEPER_SESSION_TIMEOUT=30s")[0], b.Apps(1)[0]
			b.Stock(2)
			b.Watch(second)
			a := b.BeginPaused(first, "A", lab.AfterWrite, lab.Request{})
			next := b.Begin(second, "B", lab.Request{Wait: lab.For(lab.Patience / 4)})
			b.Eventually("B watches the node of A", func() bool { return countWatches(b) > 0 })
			lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.Cut, Match: deletes(b.SKU)})
			a.Go()
			b.Sprung(lost, "delete-is-lost")
			b.Require(a.Reply().Outcome == loadtest.Accepted, "A has sold")
			served := next.Reply().Outcome == loadtest.Accepted
			b.Evidence(lab.Waited, next.Took(), "waited", "who", "B", "for", next.Took())
			j := b.Judge()
			if !served {
				return lab.Blocks.Seen()
			}
			return j.Seen()
		},
	}
}

// deletes matches requests that delete a node whose path contains text, alone or in a transaction.
func deletes(text string) func(message []byte) bool {
	const opDelete, opMulti, at = 2, 14, 8
	return func(m []byte) bool {
		if len(m) < at+4 {
			return false
		}
		op := binary.BigEndian.Uint32(m[at:])
		return (op == opDelete || op == opMulti) && wire.Contains(text)(m)
	}
}

// releaseOverBrokenLink makes A release over a connection that breaks, while B is next in the queue.
func releaseOverBrokenLink(b *lab.Testbed) lab.Observation {
	p := zkProxy(b)
	a, next := newQueuer(b, "A", p.Addr()), newQueuer(b, "B", b.Server(lab.NeedZooKeeper).Addr)
	held, err := a.enter()
	b.Must("A", err)
	mine, err := next.enter()
	b.Must("B", err)
	lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.Cut, Match: deletes(held)})
	err = a.conn.Delete(a.dir+"/"+held, -1)
	b.Sprung(lost, "delete-is-lost")
	b.Require(err != nil, "A is told that the connection is lost")
	b.Evidence(lab.Answer, err.Error(), "was-told", "who", "A", "answer", err)
	if b.Case.Code == "fixed" {
		b.Eventually("the node of A is gone", func() bool {
			err = a.conn.Delete(a.dir+"/"+held, -1)
			return err == nil || err == zk.ErrNoNode
		})
		b.Note("A", "deleted-in-the-end", "node", held)
	}
	b.Eventually("A is connected again", func() bool { return a.conn.State() == zk.StateHasSession })
	line := next.line()
	who, _ := next.owner(line[0])
	_, lives := a.owner(line[0])
	b.Evidence(lab.Served, line, "first-of-the-queue", "queue", line, "who", who, "alive", lives || who == "B")
	if line[0] == mine {
		return lab.Safe.Seen()
	}
	from := time.Now()
	a.conn.Close() // only the end of A's session removes the node
	b.Eventually("the node of A is gone with its session", func() bool { return next.line()[0] == mine })
	b.Interval("A", lab.Note, "A", from, "session-is-closed")
	b.Evidence(lab.Served, nil, "gone-with-the-session")
	return lab.Blocks.Seen()
}
