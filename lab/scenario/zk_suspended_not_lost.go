package scenario

import (
	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func zkSuspended() lab.Scenario {
	return lab.Scenario{
		Name: "zk-suspended-not-lost", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: lab.Stated(lab.Safe, "", "zk-sequential", "zk-ephemeral"),
		Run: func(b *lab.Testbed) lab.Outcome {
			p := b.Proxy(lab.NeedZooKeeper)
			first, second := b.Apps(1, b.Via(lab.NeedZooKeeper), "STOCK_ZOOKEEPER_SESSION_TIMEOUT=30s")[0], b.Apps(1)[0]
			b.Stock(1)
			b.Watch(second)
			a := b.BeginPaused(first, "A", lab.BeforeWrite, lab.Request{})
			p.Cut()
			b.Note("wire", "zookeeper-is-cut")
			b.Eventually("the session has a connection again", func() bool { return p.Connections() > 0 })
			other := b.Begin(second, "B", lab.Request{Wait: lab.Once()})
			b.Require(other.Reply().Outcome == loadtest.Busy, "B is kept out")
			a.Go()
			if reply := a.Reply(); reply.Outcome != loadtest.Accepted {
				b.Judge()
				return lab.Refuses
			}
			b.Judge()
			return lab.Safe
		},
	}
}
