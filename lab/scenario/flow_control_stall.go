package scenario

import (
	"context"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func flowControlStall() lab.Scenario {
	return lab.Scenario{
		Name: "flow-control-stall", Group: lab.Writers,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL, lab.NeedGalera},
		Slow:  true,
		Cases: on("mysql", lab.Stated(lab.Delays, declaredAsOne, "redis-watchdog", "mysql-table", "pessimistic",
			"optimistic", "atomic", "merged")),
		Together: stall,
	}
}

// stall keeps node 3 from applying changes until it stops the writers of the whole cluster, and lets customers buy at
// the other nodes.
func stall(beds []*lab.Testbed) []lab.Observation {
	g := newGalera(beds[0])
	at := make(map[*lab.Testbed]*lab.App) // one node for a SKU: at several, sales would meet the other faults, too
	for i, b := range beds {
		first, second := g.of(b).apps()
		at[b] = []*lab.App{first, second}[i%2]
		b.Stock(2)
	}
	g.replicated()
	operator := g.at(3)
	limit := func(changes string) {
		g.run(operator, "SET GLOBAL wsrep_provider_options = 'gcs.fc_limit = "+changes+"'")
	}
	limit("1") // changes that a node may be behind; 16 by default
	beds[0].Defer(func() { _, _ = operator.Exec("SET GLOBAL wsrep_provider_options = 'gcs.fc_limit = 16'") })
	from := time.Now()
	release := g.hold(3)
	db := g.at(1)
	writing, stop := context.WithCancel(beds[0].Ctx)
	defer stop()
	written := make(chan struct{})
	beds[0].Go(func(context.Context) {
		defer close(written)
		for writing.Err() == nil { // the last one waits until the stall is over
			_, _ = db.ExecContext(context.WithoutCancel(writing), "INSERT INTO barrier VALUES ()")
		}
	})
	status := g.at(1)
	beds[0].Eventually("node 3 stops the writers of the cluster", func() bool {
		return g.status(status, "wsrep_flow_control_active") == "true"
	})
	stop()
	for _, b := range beds {
		for _, who := range []string{"A", "B"} {
			b.Begin(at[b], who, lab.Request{Wait: lab.For(lab.Patience)})
		}
	}
	g.runs(1, "COMMIT")
	g.runs(2, "COMMIT")
	for _, b := range beds {
		for _, c := range b.Calls() {
			b.Require(!c.Answered(), c.Who+" waits")
		}
	}
	release()
	<-written
	return lab.Each(beds, func(b *lab.Testbed) lab.Observation {
		b.Interval(g.node(3).Name, lab.Fault, "", from, "node-stops-the-writers", "node", g.node(3).Name,
			"for", time.Since(from))
		var longest time.Duration
		for _, c := range b.Calls() {
			b.Require(c.Reply().Outcome == loadtest.Accepted, c.Who+" is served when the node applies again")
			longest = max(longest, c.Took())
		}
		g.replicated()
		b.Require(!b.Judge().Lost(), "nothing is lost")
		b.Evidence(lab.Waited, longest, "waited-for-the-slowest", "for", longest)
		return lab.Delayed(longest)
	})
}
