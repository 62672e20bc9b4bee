package scenario

import (
	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func localMutex() lab.Scenario {
	return lab.Scenario{
		Name: "local-mutex", Group: lab.NoLock,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			{Strategy: "local-mutex", Variant: "1-instance"},
			{Strategy: "local-mutex", Variant: "2-instances"},
		},
		Predict: func(c lab.Case, p lab.StrategyPromise) lab.Forecast {
			if c.Variant == "1-instance" && p.Scope == loadtest.Process {
				return lab.Forecast{Outcome: lab.Safe, From: "scope: process"}
			}
			return excludes(c, p)
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			apps := b.Apps(2)
			if b.Case.Variant == "1-instance" {
				return twoBuyers(b, apps[0], apps[0])
			}
			return twoBuyers(b, apps[0], apps[1])
		},
	}
}
