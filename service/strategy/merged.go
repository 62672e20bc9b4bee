package strategy

import (
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

func merged() Strategy {
	return Strategy{
		Name:     "merged",
		Endpoint: "/deduct_stock_merged",
		Summary: Text{
			EN: "no lock: the waiting sales of a SKU in an instance are made in one transaction, or one Lua " +
				"script; what to use for a hot SKU",
			ZH: "不加锁：同一实例中等待的同一 SKU 的销售合并为一个事务或一段 Lua 脚本；热点 SKU 用它",
		},
		Caveat: Text{
			EN: "The limits of `atomic` apply. Without contention it is not faster: a batch consists of the sales " +
				"that arrived during the previous batch (at most 128). A batch has one outcome: if " +
				"the reply to its COMMIT is lost, the outcome of each sale is unknown. Sales are made in order of " +
				"arrival only within an instance.",
			ZH: "`atomic` 不保证的它也不保证；没有等待者时并不更快：一批就是上一批进行期间到达的销售（最多 128 个）。一批只有一个结果：COMMIT " +
				"的响应丢失时，其中每个销售都结果未知。先来先得只在同一实例内成立。",
		},
		// As for atomic: a batch is one step of the store, like a single sale there.
		Promise: driver.Promise{Scope: driver.Cluster, Fenced: true, Blocking: true, SignalsLoss: true},
		Seller:  func(s Servers) service.Seller { return service.Merged(s.MergeQueue) },
	}
}
