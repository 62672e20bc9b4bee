package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// nodeLocal are the strategies whose lock is known to one node of a cluster only.
var nodeLocal = [...]string{"mysql-for-update", "mysql-get-lock"}

func severalWritersSell() lab.Scenario {
	// Nothing keeps the customers of two nodes apart: there is no lock, or only one node knows it.
	together := append([]string{"none", "local-mutex"}, nodeLocal[:]...)
	// The lock admits one at a time, but its next holder reads at a node that has not applied the last sale.
	stale := []string{
		"redis-setnx-expire", "redis-setnx-del", "redis-setnx-watch", "redis-setnx", "redis-rlock", "redis-watchdog",
		"redlock", "zk-ephemeral", "zk-sequential", "segmented",
	}
	// The sale reads the row in the transaction that writes, or compares its version, so an old read is found out. But
	// its COMMIT is in a packet with other statements, so its customer may not be told.
	packet := []string{"optimistic", "atomic", "zk-merged", "merged"}
	// The same with a COMMIT of its own; or the lock is a row of the cluster, which changes before the stock does.
	safe := []string{"mysql-table", "pessimistic"}
	return lab.Scenario{
		Name: "several-writers-sell", Group: lab.Writers,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL, lab.NeedRedlock, lab.NeedGalera},
		Cases: on("mysql", slices.Concat(
			lab.Stated(lab.Refuses, oneWriter, slices.Concat(together, stale, packet, safe)...),
			lab.Stated(lab.Oversells, severalWriters, slices.Concat(together, stale, packet)...),
			lab.Stated(lab.Safe, severalWriters, safe...))),
		Run: func(b *lab.Testbed) lab.Observation {
			g := newGalera(b)
			first, second := g.apps()
			switch name := b.Case.Strategy; {
			case b.Case.Variant == oneWriter:
				return atTheWriter(b, first, second)
			case slices.Contains(together, name):
				return lastUnit(b, first, second, g.replicated)
			case slices.Contains(packet, name):
				return lostInAPacket(b, g, first, second)
			}
			return soldFromAnOldRead(b, g, first, second)
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
	b.Require(other.Outcome != loadtest.Accepted && other.Status == 503, "B is refused")
	b.Require(!b.Judge().Lost(), "nothing is lost")
	return lab.Refuses.Seen()
}

// soldFromAnOldRead sells the unit to A, and lets B read at node 2 before that has applied the sale. B writes after it.
func soldFromAnOldRead(b *lab.Testbed, g *galera, first, second *lab.App) lab.Observation {
	b.Stock(1)
	release := g.hold(2)
	b.Require(b.Sell(first, "A", lab.Request{}).Outcome == loadtest.Accepted, "A is served")
	other := b.Begin(second, "B", lab.Request{Pause: []string{lab.BeforeWrite}, Wait: lab.For(lab.Patience)})
	if b.Case.Strategy != "mysql-table" { // node 2 has the lock as A's until it has applied the release
		other.Paused(lab.BeforeWrite)
	}
	release()
	g.replicated()
	if other.PausedOrAnswered(lab.BeforeWrite) {
		other.Go()
	}
	other.Reply()
	g.replicated()
	return b.Judge().Seen()
}

// lostInAPacket makes the sale of A arrive at node 2 between two statements of the packet that sells to B.
func lostInAPacket(b *lab.Testbed, g *galera, first, second *lab.App) lab.Observation {
	b.Stock(1)
	release := g.hold(2)
	a := b.Begin(first, "A", lab.Request{})
	b.Require(a.Reply().Outcome == loadtest.Accepted, "A is served")
	snare := g.widen()
	other := b.Begin(second, "B", lab.Request{Wait: lab.For(lab.Patience)})
	b.Sprung(snare, "sale-between-statements")
	g.runs(2, "DO SLEEP")
	release()
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
	b.Evidence(lab.Balance, map[string]int64{"initial": 1, "sold": stock.Sold, "left": stock.Quantity}, "balance",
		"initial", 1, "sold", stock.Sold, "left", stock.Quantity)
	b.Evidence(lab.Answer, told, "told-of-sales", "told", told)
	if one, two := a.Record().Receipt, other.Record().Receipt; one != nil && two != nil && one.Version == two.Version {
		b.Evidence(lab.Pair, []string{a.Record().OrderID, other.Record().OrderID}, "both-sold", "one", "A", "other", "B", "read", two.Read)
	}
	if told > 1 {
		return lab.Oversells.Seen()
	}
	return lab.Safe.Seen()
}
