package scenario

import "example.com/stock/lab"

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
		Run: func(b *lab.Testbed) lab.Outcome {
			apps := b.Apps(2)
			return twoBuyers(b, apps[0], apps[1])
		},
	}
}
