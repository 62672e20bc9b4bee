package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

func redlockRestart() lab.Scenario {
	return lab.Scenario{
		Name: "redlock-restart-without-persistence", Group: lab.Redlock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedRedlock},
		Cases: slices.Concat(
			lab.Stated(lab.Oversells, "no-persistence", "redlock"),
			lab.Stated(lab.Safe, "no-persistence-quarantine", "redlock"),
			lab.Stated(lab.Safe, "append-only-file", "redlock")),
		Run: func(b *lab.Testbed) lab.Outcome {
			const lease = "STOCK_REDLOCK_LEASE=60s"
			if b.Case.Variant == "append-only-file" {
				b.Fresh(server.Options{AOF: true}, lab.NeedRedis, lab.NeedRedlock)
			}
			apps := b.Apps(2, lease)
			first, second := apps[0], apps[1]
			if b.Case.Variant == "no-persistence-quarantine" {
				// The instance is ready only when the nodes have been up for longer than the quarantine.
				second = b.Apps(1, lease, "STOCK_REDLOCK_QUARANTINE=20s")[0]
			}
			b.Stock(1)
			nodes := newNodes(b)
			unblock := nodes.block(3, 4)
			a := b.BeginPaused(first, "A", lab.BeforeWrite, lab.Request{IgnoreLoss: true})
			unblock()
			nodes.restart(2)
			nodes.holders("nodes-after-the-restart")
			other, inside := knock(b, second, "B")
			a.Go().Reply()
			if inside {
				other.Go()
			} else {
				b.Evidence(lab.Answer, other.Record().Problem, "was-told", "who", "B", "answer",
					lab.Told(other.Reply()))
			}
			if b.Judge().Lost() {
				return lab.Oversells
			}
			b.Require(!inside && other.Record().Outcome != loadtest.Accepted, "B is kept out")
			return lab.Safe
		},
	}
}
