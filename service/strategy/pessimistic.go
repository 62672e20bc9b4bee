package strategy

import (
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

func pessimistic() Strategy {
	return Strategy{
		Name:     "pessimistic",
		Endpoint: "/deduct_stock_pessimistic",
		Summary: Text{
			EN: "no separate lock: SELECT the stock row FOR UPDATE, write, commit, in one MySQL transaction",
			ZH: "不另加锁：在一个 MySQL 事务里 SELECT 库存行 FOR UPDATE、写入、提交",
		},
		Caveat: Text{
			EN: "It does not work across databases, and it is not cheap: each transaction keeps a connection while " +
				"it waits for the row and works, so an instance has two of a SKU under way, and the others wait. A " +
				"transaction with several SKUs must lock them in a fixed order, or it deadlocks.",
			ZH: "不能跨库；不便宜：每个事务在等行锁和工作期间占用一个连接，所以每个实例里同一 SKU 同时只有两个，其余的排队。" +
				"一个事务涉及多个 SKU 时必须自己固定加锁顺序，否则会死锁。",
		},
		Stores: []string{MySQL},
		// Fenced, because lock and write are one transaction: a holder that has lost the row lock cannot commit.
		Promise: driver.Promise{
			Exclusive: true, Scope: driver.Cluster, Fenced: true, Blocking: true, SignalsLoss: true,
		},
		Seller: func(Servers) service.Seller { return service.InTransaction },
	}
}
