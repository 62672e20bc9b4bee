package scenario

import (
	"slices"
	"time"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lab"
)

func keeperCutOff() lab.Scenario {
	const silent = "messages-are-lost"
	idle := lab.Forecast{Outcome: lab.Delays, Within: keptFreed}
	return lab.Scenario{
		Name: "keeper-cut-off", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: on("mysql", slices.Concat(
			[]lab.Case{
				{Strategy: "redis-watchdog", Variant: silent, Want: idle},
				{Strategy: "redis-watchdog", Variant: "connections-break", Want: idle},
			},
			lab.Cases(ignoresLoss, "redis-watchdog"),
		)),
		Predict: lateWriter,
		Run: func(b *lab.Testbed) lab.Observation {
			p := b.Proxy(lab.NeedRedis)
			keeper, other := b.Apps(1, append(keeping(), b.Via(lab.NeedRedis))...)[0], b.Apps(1, keeping()...)[0]
			b.Stock(50)
			b.Watch(other)
			lease := keep(b, keeper, "K")
			var a *lab.Call
			if b.Case.Variant == ignoresLoss {
				a = useKept(b, keeper, lease)
			}
			from := time.Now()
			if b.Case.Variant == "connections-break" {
				p.Refuse(true)
				p.Cut()
			} else {
				p.Silence(wire.ToServer, wire.ToClient)
			}
			next, waited := letIn(b, other, from)
			back := func() {
				p.Refuse(false)
				p.Silence()
				b.Interval("wire", lab.Fault, "", from, "keeper-is-cut-off", "for", time.Since(from))
				b.AwaitReady([]*lab.App{keeper})
			}
			if a == nil {
				return afterKeeper(b, keeper, next, waited, back)
			}
			next.Go().Reply()
			a.Go()
			seen := lateVerdict(b, a)
			back()
			return seen
		},
	}
}
