package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// oldRead is the false declaration, with the fault that is forced.
const oldRead = "declared-as-one-old-read"

func severalWritersSell() lab.Scenario {
	// Their next holder may read at a node that has not applied the last sale. A fence tells if it then writes.
	outside := []string{
		"none", "local-mutex", "redis-setnx-expire", "redis-setnx-del", "redis-setnx-watch", "redis-setnx",
		"redis-rlock", "redis-watchdog", "redlock", "zk-ephemeral", "zk-sequential",
	}
	// They compare versions, read again in the transaction, or have the lock in the cluster, which applies the release
	// of a lock after the sale.
	sound := []string{"segmented", "optimistic", "pessimistic", "mysql-table"}
	everyone := slices.Concat(outside, sound,
		[]string{"mysql-for-update", "mysql-get-lock", "atomic", "merged"})
	slices.Sort(everyone)
	return lab.Scenario{
		Name: "several-writers-sell", Group: lab.Writers,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL, lab.NeedRedlock, lab.NeedGalera},
		Slow:  true,
		Cases: on("mysql", slices.Concat(lab.Stated(lab.Refuses, severalWriters, everyone...),
			lab.Cases(oldRead, outside...), lab.Stated(lab.Safe, oldRead, sound...))),
		Predict: fenced,
		Run: func(b *lab.Testbed) lab.Outcome {
			g := newGalera(b)
			first, second := g.apps()
			if b.Case.Variant == oldRead {
				return soldFromAnOldRead(b, g, first, second)
			}
			for who, app := range map[string]*lab.App{"A": first, "B": second} {
				b.Require(b.Sell(app, who, lab.Request{}).Problem == "backend_down", who+" is refused")
				all, err := app.Backends(b.Ctx)
				b.Must("/readyz", err)
				b.Require(lab.SeveralWriters(all["mysql"]), app.Name+" says why")
			}
			return lab.Refuses
		},
	}
}

// soldFromAnOldRead sells the last unit to A, and lets B read at node 2, which has not applied the sale. B writes when
// it has.
func soldFromAnOldRead(b *lab.Testbed, g *galera, first, second *lab.App) lab.Outcome {
	b.Stock(2)
	// The first sale of a strategy may write more than its order.
	b.Require(b.Sell(first, "W", lab.Request{}).Outcome == loadtest.Accepted, "W is served")
	g.replicated()
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
		return lab.Refuses
	}
	return j.Seen()
}
