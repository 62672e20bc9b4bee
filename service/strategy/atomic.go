package strategy

import (
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

func atomic() Strategy {
	return Strategy{
		Name:     "atomic",
		Endpoint: "/deduct_stock_atomic",
		Summary: Text{
			EN: "no lock: a conditional UPDATE, or one Lua script; what to use when you can",
			ZH: "不加锁：条件 UPDATE 或一段 Lua 脚本；能用就用它",
		},
		Caveat: Text{
			EN: "It fits only decisions about the row itself: every check between read and write must be part of " +
				"the statement or the script.",
			ZH: "判断条件必须能写进这条语句或脚本；需要查询其他数据才能决定时就用不上。",
		},
		// Blocking, because it never fails for contention. Fenced, because there is no lease to lose.
		Promise: driver.Promise{Scope: driver.Cluster, Fenced: true, Blocking: true, SignalsLoss: true},
		Seller:  func(Servers) service.Seller { return service.Atomically },
	}
}
