package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func noLock() lab.Scenario {
	return lab.Scenario{
		Name: "no-lock", Group: lab.NoLock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL, lab.NeedRedlock},
		Cases: append(lab.Cases(
			"", "none", "local-mutex", "redis-setnx-expire", "redis-setnx-del", "redis-setnx-watch", "redis-setnx",
			"redis-rlock", "redis-watchdog", "redlock", "zk-ephemeral", "zk-sequential", "mysql-table",
			"mysql-for-update", "mysql-get-lock", "segmented", "pessimistic", "optimistic", "atomic",
			"merged",
		),
			lab.Case{Strategy: "none", Store: "mysql"}, lab.Case{Strategy: "redis-watchdog", Store: "mysql"},
			lab.Case{Strategy: "optimistic", Store: "mysql"}, lab.Case{Strategy: "atomic", Store: "mysql"},
			lab.Case{Strategy: "merged", Store: "mysql"}),
		Predict: excludes,
		Run: func(b *lab.Testbed) lab.Observation {
			apps := b.Apps(2)
			return twoBuyers(b, apps[0], apps[1])
		},
	}
}

// twoBuyers sells the last unit to A, and to B if the lock admits B.
func twoBuyers(b *lab.Testbed, first, second *lab.App) lab.Observation {
	return lastUnit(b, first, second, func() {})
}

// lastUnit is twoBuyers. It calls replicated after each change, before the other customer goes on.
func lastUnit(b *lab.Testbed, first, second *lab.App, replicated func()) lab.Observation {
	b.Stock(1)
	if b.Promise.Exclusive && b.Promise.Scope == loadtest.Cluster {
		b.Watch(second)
	}
	point := lastPoint(b.Case.Strategy)
	a := b.BeginPaused(first, "A", point, lab.Request{})
	replicated()
	other := b.Begin(second, "B", lab.Request{Pause: []string{point}, Wait: lab.Once()})
	inside := other.PausedOrAnswered(point)
	a.Go()
	a.Reply()
	replicated()
	if inside {
		other.Go()
	}
	if other.Reply().Outcome == loadtest.Busy {
		if !inside {
			b.Evidence(lab.Answer, nil, "turned-away")
		}
		b.Sell(second, "B2", lab.Request{})
	}
	replicated()
	return b.Judge().Seen()
}

// lastPoint returns the last pause point before the write of a sale. If read and write are one step, it is the point
// before that step.
func lastPoint(strategy string) string {
	if slices.Contains([]string{"atomic", "merged"}, strategy) {
		return lab.AfterLock
	}
	return lab.BeforeWrite
}
