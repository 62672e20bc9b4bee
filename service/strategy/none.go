package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/local"
)

func none() Strategy {
	return Strategy{
		Name:     "none",
		Endpoint: "/deduct_stock",
		Summary: Text{
			EN: "no lock: the race",
			ZH: "不加锁：竞态本身",
		},
		Caveat: Text{
			EN: "Nothing is promised. It is the control run: two requests that read the same quantity both sell " +
				"the same unit.",
			ZH: "什么都不保证。它是对照组：读到同一库存的两个请求会把同一件商品各卖一次。",
		},
		Promise: local.None{}.Promise(),
		Lock:    func(Servers) lock.Locker { return &local.None{} },
	}
}
