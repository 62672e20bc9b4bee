package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func zkOrphan() lab.Scenario {
	return lab.Scenario{
		Name:  "zk-orphan-after-a-lost-reply",
		Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: slices.Concat(
			[]lab.Case{byHand("naive", lab.Blocks, "tries-again")},
			lab.Stated(lab.Safe, "", "zk-sequential"),
		),
		Run: func(b *lab.Testbed) lab.Outcome {
			p := b.Proxy(lab.NeedZooKeeper)
			if b.Case.Code == "naive" {
				q := newQueuer(b, "A", p.Addr())
				lost := b.Trap(
					p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: wire.Contains(q.dir + "/lock-")},
				)
				_, err := q.enter()
				b.Sprung(lost, "create-reply-is-lost")
				b.Require(err != nil, "A is told that the connection is lost")
				var node string
				b.Eventually("A is connected again, and creates", func() bool {
					node, err = q.enter()
					return err == nil
				})
				line := q.line()
				first, own := q.owner(line[0])
				b.Evidence(lab.Served, line, "waits-for-its-own-node", "queue", line, "node", line[0], "who", first,
					"own", own)
				if line[0] != node && own {
					return lab.Blocks
				}
				return lab.Safe
			}
			first, second := b.Apps(1, b.Via(lab.NeedZooKeeper))[0], b.Apps(1)[0]
			b.Stock(2)
			lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: func(m []byte) bool {
				return wire.Contains(b.SKU)(m) && wire.Contains("-lock-")(m)
			}})
			a := b.Begin(first, "A", lab.Request{Wait: lab.For(lab.Patience)})
			b.Sprung(lost, "create-reply-is-lost")
			a.Reply()
			next := b.Sell(second, "B", lab.Request{Wait: lab.For(lab.Patience)})
			b.Require(a.Record().Outcome == loadtest.Accepted && next.Outcome == loadtest.Accepted, "both are served")
			b.Judge()
			return lab.Safe
		},
	}
}
