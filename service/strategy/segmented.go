package strategy

import (
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

func segmented() Strategy {
	return Strategy{
		Name:     "segmented",
		Endpoint: "/deduct_stock_segmented",
		Summary: Text{
			EN: "stock split in 8 segments with a redis-watchdog lock each, so that 8 sales of one SKU go on at a " +
				"time; sold out only when the total is",
			ZH: "库存拆成 8 段，每段一把 redis-watchdog 锁，同一 SKU 可同时卖 8 单；总量不足才算售罄",
		},
		Caveat: Text{
			EN: "It is not faster if there is little work in the lock or little stock: the last units are " +
				"collected from all segments. It is not fair. After a crash the holder's segment cannot be sold " +
				"from until its lease (30 s) expires: a request that needs the segment waits, and may fail as " +
				"busy, but never as sold out.",
			ZH: "锁内工作很少或库存所剩无几时并不更快：最后几件要从各段归集。不公平；持有者崩溃后，其所在段要等租约（30 秒）到期才能再卖：需要它的请求会等待，可能被告知“忙”，但不会误报售罄。",
		},
		Needs: []string{Redis},
		// Not Exclusive, because several sales of one SKU may be under way at a time. Fenced, because a write
		// compares the version that was read.
		Promise: driver.Promise{
			Scope:           driver.Cluster,
			Fenced:          true,
			Blocking:        true,
			SignalsLoss:     true,
			FreedAfterCrash: 30 * time.Second,
		},
		RoundTrips: 2,
		Lock:       redisWatchdog().Lock,
		Segmented:  true,
		Around: func(s Servers, l lock.Locker) service.Seller {
			return service.Segmented(l, s.Segments)
		},
	}
}
