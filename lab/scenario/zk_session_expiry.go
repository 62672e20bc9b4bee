package scenario

import (
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

func zkSessionExpiry() lab.Scenario {
	return lab.Scenario{
		Name:  "zk-session-expiry",
		Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: slices.Concat(
			lab.Cases(heedsLoss, "zk-sequential", "zk-ephemeral"),
			lab.Cases(ignoresLoss, "zk-sequential", "zk-ephemeral"),
			lab.Cases(noFence, "zk-sequential", "zk-ephemeral"),
		),
		Predict: lateWriter,
		Together: func(beds []*lab.Testbed) []lab.Observation {
			const session = "STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s"
			p := beds[0].Proxy(lab.NeedZooKeeper)
			var first, second *lab.App
			for _, b := range beds {
				first, second = b.Apps(1, session, b.Via(lab.NeedZooKeeper))[0], b.Apps(1, session)[0]
				b.Stock(1)
				b.Watch(second)
			}
			for _, b := range beds {
				b.Begin(first, "A", lateRequest(b.Case.Variant)).Paused(lab.BeforeWrite)
			}
			from := time.Now()
			p.Silence(wire.ToServer, wire.ToClient)
			for _, b := range beds {
				b.Begin(second, "B", lab.Request{Wait: lab.For(lab.Patience)})
			}
			for _, b := range beds {
				next := b.Calls()[1]
				next.Reply()
				b.Interval("wire", lab.Fault, "", from, "silence", "app", first.Name)
				b.Evidence(lab.Waited, next.Took(), "let-in-after-silence", "after", next.Took())
			}
			seen := lab.Each(beds, func(b *lab.Testbed) lab.Observation {
				a := b.Calls()[0]
				if b.Case.Variant != heedsLoss {
					a.Go()
				}
				return lateVerdict(b, a)
			})
			p.Silence()
			return seen
		},
	}
}
