package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/zklock"
)

func zkSequential() Strategy {
	return Strategy{
		Name:     "zk-sequential",
		Endpoint: "/deduct_stock_zk",
		Summary: Text{
			EN: "Curator InterProcessMutex-style: ephemeral sequential nodes, watch the predecessor, FIFO",
			ZH: "Curator InterProcessMutex 风格：临时顺序节点，只监听前一个节点，先来先得",
		},
		Caveat: Text{
			EN: "A frozen process may notice too late that its session has expired (the fence refuses its write). " +
				"Order between instances is not strict: they take turns of up to 16 holders. It is slower than " +
				"Redis: every turn is a quorum write.",
			ZH: "被冻结的进程不能及时发现会话过期（其写入由栅栏令牌拒绝）；实例之间不是严格先来先得，而是轮流，每轮最多 16 个持有者；也不如 Redis 快：每一轮都是一次多数派写入。",
		},
		Needs:      []string{ZooKeeper},
		Promise:    new(zklock.Sequential).Promise(),
		RoundTrips: 2,
		Lock:       func(s Servers) lock.Locker { return s.handOver(zklock.NewSequential(s.ZooKeeper)) },
	}
}
