package scenario

import (
	"slices"
	"time"

	"example.com/stock/lab"
)

func keeperFrozen() lab.Scenario {
	const idle = "idle"
	return lab.Scenario{
		Name: "keeper-frozen", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: slices.Concat(
			[]lab.Case{{
				Strategy: "redis-watchdog", Variant: idle,
				Want: lab.Forecast{Outcome: lab.Delays, Within: keptFreed},
			}},
			lab.Cases(heedsLoss, "redis-watchdog"),
			lab.Cases(ignoresLoss, "redis-watchdog"),
			lab.Cases(noFence, "redis-watchdog"),
		),
		Predict: lateWriter,
		Run: func(b *lab.Testbed) lab.Observation {
			apps := b.Apps(2, keeping()...)
			keeper, other := apps[0], apps[1]
			b.Stock(50)
			b.Watch(other)
			lease := keep(b, keeper, "K")
			var a *lab.Call
			if b.Case.Variant != idle {
				a = useKept(b, keeper, lease)
			}
			from, thaw := time.Now(), b.Freeze(keeper)
			next, waited := letIn(b, other, from)
			if a == nil {
				thaw()
				return afterKeeper(b, keeper, next, waited, func() {})
			}
			next.Go().Reply()
			thaw()
			if b.Case.Variant != heedsLoss {
				a.Go()
			}
			return lateVerdict(b, a)
		},
	}
}
