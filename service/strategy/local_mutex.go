package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/local"
)

func localMutex() Strategy {
	return Strategy{
		Name:     "local-mutex",
		Endpoint: "/deduct_stock_sync",
		Summary: Text{
			EN: "a mutex per SKU in the process: right on one instance only",
			ZH: "进程内每个 SKU 一把互斥锁：只在单实例下正确",
		},
		Caveat: Text{
			EN: "It excludes nothing on other instances. It passes every test in one process, and oversells behind " +
				"a load balancer.",
			ZH: "对其他实例没有任何保证。单进程下所有测试都能通过，一上负载均衡就超卖。",
		},
		Promise: new(local.Mutex).Promise(),
		Lock:    func(Servers) lock.Locker { return &local.Mutex{} },
	}
}
