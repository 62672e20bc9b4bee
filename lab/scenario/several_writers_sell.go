package scenario

import (
	"slices"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// The faults of several writers that are forced.
const (
	oldRead        = "several-writers-old-read"
	abortedBetween = "several-writers-aborted-between"
)

// nodeLocal are the strategies whose lock is known to one node of a cluster only.
var nodeLocal = [...]string{"mysql-for-update", "mysql-get-lock"}

func severalWritersSell() lab.Scenario {
	// Their next holder may read at a node that has not applied the last sale. A fence tells if it then writes.
	outside := []string{
		"none", "local-mutex", "redis-setnx-expire", "redis-setnx-del", "redis-setnx-watch", "redis-setnx",
		"redis-rlock", "redis-watchdog", "redlock", "zk-ephemeral", "zk-sequential",
	}
	// They find an old read out when they write. But their COMMIT is in a packet with other statements.
	packet := append([]string{
		"redis-setnx", "redis-watchdog", "zk-ephemeral", "zk-sequential", "segmented", "optimistic", "atomic",
		"zk-merged", "merged",
	}, nodeLocal[:]...)
	// They compare versions, have a COMMIT of their own, or have the lock in the cluster, which applies the release of
	// a lock after the sale.
	sound := []string{"segmented", "optimistic", "pessimistic", "mysql-table"}
	everyone := slices.Concat(outside, sound, packet)
	slices.Sort(everyone)
	return lab.Scenario{
		Name: "several-writers-sell", Group: lab.Writers,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL, lab.NeedRedlock, lab.NeedGalera},
		Cases: on("mysql", slices.Concat(
			lab.Stated(lab.Refuses, oneWriter, slices.Compact(everyone)...),
			lab.Cases(oldRead, outside...), lab.Stated(lab.Safe, oldRead, sound...),
			lab.Stated(lab.Oversells, abortedBetween, packet...))),
		Predict: fenced,
		Run: func(b *lab.Testbed) lab.Observation {
			g := newGalera(b)
			first, second := g.apps()
			switch b.Case.Variant {
			case oneWriter:
				return atTheWriter(b, first, second)
			case oldRead:
				return soldFromAnOldRead(b, g, first, second)
			}
			return lostBetweenStatements(b, g, first, second)
		},
	}
}

// atTheWriter sells at the node that takes the sales, and asks for a unit at another one.
func atTheWriter(b *lab.Testbed, first, second *lab.App) lab.Observation {
	b.Stock(1)
	a := b.Sell(first, "A", lab.Request{})
	if slices.Contains(nodeLocal[:], b.Case.Strategy) {
		b.Require(a.Problem == "backend_down", "A is refused, because the lock is known to one node only")
	} else {
		b.Require(a.Outcome == loadtest.Accepted, "A is served")
	}
	other := b.Sell(second, "B", lab.Request{})
	b.Require(other.Problem == "second_writer" || other.Problem == "backend_down", "B is refused")
	b.Require(!b.Judge().Lost(), "nothing is lost")
	return lab.Refuses.Seen()
}

// warm leaves one of two units. The first sale of a strategy may write more than its order.
func warm(b *lab.Testbed, g *galera, first *lab.App) {
	b.Stock(2)
	b.Require(b.Sell(first, "W", lab.Request{}).Outcome == loadtest.Accepted, "W is served")
	g.replicated()
}

// soldFromAnOldRead sells the last unit to A, and lets B read at node 2, which has not applied the sale. B writes when
// it has.
func soldFromAnOldRead(b *lab.Testbed, g *galera, first, second *lab.App) lab.Observation {
	warm(b, g, first)
	release := g.hold(2)
	b.Require(b.Sell(first, "A", lab.Request{}).Outcome == loadtest.Accepted, "A is served")
	other := b.Begin(second, "B", lab.Request{Pause: []string{lab.BeforeWrite}, Wait: lab.For(lab.Patience)})
	if b.Case.Strategy != "mysql-table" { // its lock is held at node 2 until that has applied the release
		other.Paused(lab.BeforeWrite)
	}
	release()
	g.replicated()
	if other.PausedOrAnswered(lab.BeforeWrite) {
		other.Go()
	}
	reply := other.Reply()
	g.replicated()
	j := b.Judge()
	if !j.Lost() && reply.Problem == "overtaken" {
		return lab.Refuses.Seen()
	}
	return j.Seen()
}

// lostBetweenStatements makes the sale of A arrive at node 2 between two statements of the packet that sells to B.
func lostBetweenStatements(b *lab.Testbed, g *galera, first, second *lab.App) lab.Observation {
	warm(b, g, first)
	var a, other *lab.Call
	if slices.Contains(nodeLocal[:], b.Case.Strategy) { // both have the lock
		a = b.BeginPaused(first, "A", lab.BeforeWrite, lab.Request{})
		g.replicated()
		other = b.BeginPaused(second, "B", lab.BeforeWrite, lab.Request{})
		g.openBetween(func() { other.Go() })
		a.Go()
	} else { // A has given the lock back
		release := g.hold(2)
		a = b.Begin(first, "A", lab.Request{})
		b.Require(a.Reply().Outcome == loadtest.Accepted, "A is served")
		g.openBetween(func() { other = b.Begin(second, "B", lab.Request{Wait: lab.For(lab.Patience)}) })
		release()
	}
	told := int64(0)
	for _, c := range b.Calls() {
		reply := c.Reply()
		b.Evidence(lab.Answer, reply.Problem, "was-told", "who", c.Who, "answer", lab.Told(reply))
		if reply.Outcome == loadtest.Accepted {
			told++
		}
	}
	g.replicated()
	stock, err := first.Stock(b.Ctx, b.Store(), b.SKU)
	b.Must("read the stock", err)
	b.Evidence(lab.Balance, map[string]int64{"initial": 2, "sold": stock.Sold, "left": stock.Quantity}, "balance",
		"initial", 2, "sold", stock.Sold, "left", stock.Quantity)
	b.Evidence(lab.Answer, told, "told-of-sales", "told", told)
	if one, two := a.Record(), other.Record(); two.Receipt != nil && one.Version == two.Version {
		b.Evidence(lab.Pair, []string{one.OrderID, two.OrderID}, "both-sold", "one", a.Who, "other", other.Who,
			"read", two.Read)
	}
	if told > stock.Sold {
		return lab.Oversells.Seen()
	}
	return lab.Safe.Seen()
}

// openBetween calls begin, and waits until the sale that it begins at node 2 is between two statements of its last
// packet: a proxy puts betweenStatements before the COMMIT. A packet of COMMIT alone stays as it is.
func (g *galera) openBetween(begin func()) {
	snare := g.b.Trap(g.b.Proxy(lab.Node(2)), wire.Trap{
		On: wire.ToServer, Match: wire.Contains("; COMMIT"), Do: wire.Rewrite,
		Rewrite: wire.BeforeCommit(betweenStatements),
	})
	begin()
	g.b.Sprung(snare, "sale-between-statements")
	g.runs(2, "DO SLEEP")
}
