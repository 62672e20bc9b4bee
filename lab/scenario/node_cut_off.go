package scenario

import (
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func nodeCutOff() lab.Scenario {
	return lab.Scenario{
		Name: "node-cut-off", Group: lab.Writers,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL, lab.NeedGalera},
		Slow:  true,
		Cases: on("mysql", lab.Stated(lab.Refuses, declaredAsOne, "redis-watchdog", "pessimistic", "atomic",
			"merged")),
		Together: cutOff,
	}
}

// cutOff cuts node 1 off. Customers go to one node at a time, as a proxy would lead them.
func cutOff(beds []*lab.Testbed) []lab.Observation {
	type pair struct{ first, second *lab.App }
	of := make(map[*lab.Testbed]pair)
	g := newGalera(beds[0])
	for _, b := range beds {
		first, second := g.of(b).apps()
		of[b] = pair{first, second}
		b.Stock(3)
		b.Require(b.Sell(first, "A", lab.Request{}).Outcome == loadtest.Accepted, "A is served")
	}
	g.replicated()
	db := g.at(1)
	isolate := func(on string) { g.run(db, "SET GLOBAL wsrep_provider_options = 'gmcast.isolate = "+on+"'") }
	from := time.Now()
	isolate("1")
	beds[0].Defer(func() { _, _ = db.Exec("SET GLOBAL wsrep_provider_options = 'gmcast.isolate = 0'") })
	beds[0].Eventually("node 1 is not in the primary component", func() bool {
		return g.status(db, "wsrep_cluster_status") == "non-Primary"
	})
	for _, b := range beds {
		at := of[b]
		g.awaitMySQL(at.first, "has lost its cluster", func(m loadtest.Backend) bool { return !m.Up })
		other := b.Sell(at.first, "B", lab.Request{})
		b.Require(other.Status == 503, "B is refused at the node that is cut off")
		g.awaitMySQL(at.second, "sells", func(m loadtest.Backend) bool { return m.Up })
		b.Require(b.Sell(at.second, "C", lab.Request{}).Outcome == loadtest.Accepted, "C is served at the other node")
	}
	isolate("0")
	beds[0].Eventually("node 1 is in the cluster again", func() bool {
		return g.status(db, "wsrep_local_state_comment") == "Synced"
	})
	g.replicated()
	return lab.Each(beds, func(b *lab.Testbed) lab.Observation {
		b.Interval(g.node(1).Name, lab.Fault, "", from, "node-is-cut-off", "node", g.node(1).Name, "for",
			time.Since(from))
		at := of[b]
		b.Through(at.second)
		g.awaitMySQL(at.first, "sells again", func(m loadtest.Backend) bool { return m.Up })
		b.Require(b.Sell(at.first, "D", lab.Request{}).Outcome == loadtest.Accepted, "D is served at node 1 again")
		g.replicated()
		j := b.Judge()
		b.Require(!j.Lost() && len(j.Orders) == 3, "the books have what the customers were told")
		return lab.Refuses.Seen()
	})
}
