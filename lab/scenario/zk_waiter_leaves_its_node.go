package scenario

import (
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func zkTimedOutWaiter() lab.Scenario {
	return lab.Scenario{
		Name:  "zk-waiter-leaves-its-node",
		Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: slices.Concat(
			[]lab.Case{byHand("naive", lab.Blocks, "does-not-delete")},
			lab.Stated(lab.Safe, "", "zk-sequential", "zk-ephemeral"),
		),
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code == "naive" {
				addr := b.Server(lab.NeedZooKeeper).Addr
				a, other, third := newQueuer(b, "A", addr), newQueuer(b, "B", addr), newQueuer(b, "C", addr)
				holder, err := a.enter()
				b.Must("A", err)
				_, err = other.enter()
				b.Must("B", err)
				b.Note("B", "gives-up")
				a.leave(holder)
				mine, err := third.enter()
				b.Must("C", err)
				line := third.line()
				who, _ := third.owner(line[0])
				b.Evidence(lab.Served, line, "first-went-away", "queue", line, "who", who)
				if line[0] != mine && who == "B" {
					return lab.Blocks
				}
				return lab.Safe
			}
			apps := b.Apps(3)
			b.Stock(2)
			b.Watch(apps[2])
			a := b.BeginPaused(apps[0], "A", lab.BeforeWrite, lab.Request{})
			gone := b.Begin(apps[1], "B", lab.Request{Wait: lab.For(500 * time.Millisecond)})
			b.Require(gone.Reply().Outcome == loadtest.Busy, "B gives up")
			a.Go().Reply()
			b.Require(b.Sell(apps[2], "C", lab.Request{Wait: lab.For(lab.Patience)}).Outcome == loadtest.Accepted,
				"C is served")
			b.Judge()
			return lab.Safe
		},
	}
}
