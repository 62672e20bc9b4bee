package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/mysqllock"
)

func mysqlGetLock() Strategy {
	return Strategy{
		Name:     "mysql-get-lock",
		Endpoint: "/deduct_stock_mysql_get_lock",
		Summary: Text{
			EN: "GET_LOCK, a named lock of the database server, on a connection that is kept until it is released",
			ZH: "GET_LOCK：数据库服务器的命名锁，在释放之前一直占用同一个连接",
		},
		Caveat: Text{
			EN: "The next holder may enter before the previous one is notified: the lock ends with the connection, " +
				"and the holder learns it a moment later (the fence refuses its write). Each held key occupies a " +
				"connection: an instance holds at most 8 keys, and answers no_capacity to the " +
				"ninth. The lock is not replicated: in a cluster with several masters it excludes nobody on the " +
				"others.",
			ZH: "不能保证在放行下一个之前通知持有者：连接一断锁就没了，持有者稍后才知道（其写入由栅栏令牌拒绝）。同时持有的键不能多于连接：每个实例最多持有 8 个键，对第 9 " +
				"个回答 no_capacity。它只属于一台服务器，不会复制；多主集群中对其他主节点不起作用。",
		},
		Needs:      []string{MySQL},
		Promise:    new(mysqllock.GetLock).Promise(),
		RoundTrips: 3,
		Lock: func(s Servers) lock.Locker {
			return s.handOver(
				mysqllock.NewGetLock(s.MySQL, mysqllock.ConnOptions{MaxHold: s.WatchdogMaxHold}),
			)
		},
	}
}
