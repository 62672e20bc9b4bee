package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/zklock"
)

// zkEphemeral shows the herd effect. It never uses lock.HandOver, which would leave only one waiter for each process.
func zkEphemeral() Strategy {
	return Strategy{
		Name:     "zk-ephemeral",
		Endpoint: "/deduct_stock_zk_ephemeral",
		Summary: Text{
			EN: "one ephemeral node, which all who wait watch: each release wakes the whole herd, one of it " +
				"gets the key",
			ZH: "只有一个临时节点，所有等待者都监听它：每次释放惊醒全部等待者（羊群效应），只有一个拿到锁",
		},
		Caveat: Text{
			EN: "It is not fair, and a wait may never end: the fastest waiter gets the lock. It is slow: serving n " +
				"waiters costs n(n+1)/2 wake-ups, each with a write to the ensemble. A frozen process may notice " +
				"too late that its session has expired (the fence refuses its write).",
			ZH: "不公平，等待也没有上限：谁快谁得。也不快：服务完 n 个等待者要惊醒 n(n+1)/2 次，每次都要写一次集群。被冻结的进程不能及时发现会话过期（其写入由栅栏令牌拒绝）。",
		},
		Needs:      []string{ZooKeeper},
		Promise:    new(zklock.Ephemeral).Promise(),
		RoundTrips: 2,
		Lock:       func(s Servers) lock.Locker { return zklock.NewEphemeral(s.ZooKeeper) },
	}
}
