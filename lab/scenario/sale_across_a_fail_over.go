package scenario

import (
	"fmt"
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// acrossUnits is the stock, and acrossSales the number of sales before the fail-over, which are lost, and after it.
// Those after it are of two units, so that the stock then has the version that A has read, and another quantity.
const (
	acrossUnits = 100
	acrossSales = 10
)

func saleAcrossFailOver() lab.Scenario {
	return lab.Scenario{
		Name: "sale-across-a-fail-over", Group: lab.NoLock,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: on("redis", slices.Concat(
			lab.Stated(lab.Oversells, "", "none"),
			lab.Stated(lab.Loses, "", "optimistic"))),
		Run: func(b *lab.Testbed) lab.Outcome {
			x := startSentinels(b, 1)
			apps := b.Apps(2, through(x)...)
			b.Stock(acrossUnits)
			replica := b.RedisAt(x.Redis[1].Addr)
			b.Eventually("the replica has the stock", func() bool {
				return replica.Exists(b.Ctx, "stock:{"+b.SKU+"}").Val() == 1
			})
			b.Must("sever the replica", x.Sever(b.Ctx))
			b.Note(x.Redis[1].Name, "replica-is-cut-off", "master", x.Redis[0].Name)
			acknowledged := acrossSell(b, apps[0], "lost", 1)
			a := b.BeginPaused(apps[0], "A", lab.BeforeWrite, lab.Request{Wait: lab.Once()})
			b.Must("kill the master", x.Redis[0].Kill())
			master, err := x.AwaitMaster(b.Ctx, x.Redis[0])
			b.Must("wait for the new master", err)
			b.Note(master.Name, "promoted", "server", master.Name)
			b.AwaitReady(apps)
			acknowledged += acrossSell(b, apps[1], "kept", 2)
			reply := a.Go().Reply()
			b.Evidence(lab.Answer, reply.Problem, "was-told", "who", "A", "answer", lab.Told(reply))
			if reply.Outcome == loadtest.Accepted {
				acknowledged++
			}
			stock, err := apps[1].Stock(b.Ctx, b.Store(), b.SKU)
			b.Must("read the stock", err)
			b.Evidence(lab.Balance, stock.Sold, "balance", "initial", acrossUnits, "sold", stock.Sold,
				"left", stock.Quantity)
			b.Evidence(lab.Balance, acknowledged, "acknowledged", "units", acknowledged, "sold", stock.Sold)
			switch {
			case stock.Sold+stock.Quantity != acrossUnits:
				return lab.Oversells
			case acknowledged > stock.Sold:
				return lab.Loses
			}
			return lab.Safe
		},
	}
}

// acrossSell sells to customers one after the other, and returns the number of units that were sold.
func acrossSell(b *lab.Testbed, app *lab.App, who string, units int64) (sold int64) {
	for n := range acrossSales {
		reply := b.Sell(app, fmt.Sprintf("%s %d", who, 1+n), lab.Request{Units: units})
		b.Require(reply.Outcome == loadtest.Accepted, "a customer is served, not "+lab.Told(reply).EN)
		sold += units
	}
	return sold
}
