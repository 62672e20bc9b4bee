package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/zklock"
	"example.com/stock/service"
)

func zkMerged() Strategy {
	return Strategy{
		Name:     "zk-merged",
		Endpoint: "/deduct_stock_zk_merged",
		Summary: Text{
			EN: "the lock of zk-sequential, but one acquisition sells for all waiting requests of an instance: one " +
				"read, one write, an order each",
			ZH: "用 zk-sequential 的锁，每拿到一次锁，就为本实例的所有等待者一起扣减：读一次、写一次，各得一个订单",
		},
		Caveat: Text{
			EN: "The limits of `zk-sequential` apply; instances take turns of up to 128 sales. The " +
				"work between read and write is done once for a batch, and delays all of it. A batch has one " +
				"outcome: if the reply to its write is lost, the outcome of each sale is unknown.",
			ZH: "`zk-sequential` 不保证的它也不保证；实例之间轮流，每轮最多 128 单。读与写之间的业务处理每批只做一次，" +
				"整批都要等它。一批只有一个结果：写的响应丢失时，其中每个销售都结果未知。",
		},
		Needs:      []string{ZooKeeper},
		Promise:    zkSequential().Promise, // the lock is the same
		RoundTrips: zkSequential().RoundTrips,
		// Without lock.HandOver, because the merger is the only contender of its instance.
		Lock: func(s Servers) lock.Locker { return zklock.NewSequential(s.ZooKeeper) },
		Fits: service.Fits[service.Batcher],
		Around: func(s Servers, l lock.Locker) service.Seller {
			return service.MergedUnderLock(l, s.Merge)
		},
	}
}
