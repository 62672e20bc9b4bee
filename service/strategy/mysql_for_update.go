package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/mysqllock"
)

func mysqlForUpdate() Strategy {
	return Strategy{
		Name:     "mysql-for-update",
		Endpoint: "/deduct_stock_mysql_for_update",
		Summary: Text{
			EN: "SELECT ... FOR UPDATE of a row in a separate table, released by the end of the transaction: a " +
				"general lock, for any store",
			ZH: "对专用表中的一行 SELECT ... FOR UPDATE，事务结束即释放：通用锁，适用于任何存储",
		},
		Caveat: Text{
			EN: "The next holder may enter before the previous one is notified: the database rolls back as soon as " +
				"it sees the connection end, and the holder learns it a moment later (the fence refuses its " +
				"write). Each held key occupies a connection: an instance holds at most 8 keys, " +
				"and answers no_capacity to the ninth. A fail-over ends all locks.",
			ZH: "不能保证在放行下一个之前通知持有者：数据库一发现连接断开就立即回滚，持有者稍后才知道（其写入由栅栏令牌拒绝）。每个被持有的键占用一个连接：每个实例最多同时持有 8 " +
				"个键，对第 9 个回答 no_capacity。主从切换会使所有锁失效。",
		},
		Needs:      []string{MySQL},
		Promise:    new(mysqllock.ForUpdate).Promise(),
		RoundTrips: 4,
		Lock: func(s Servers) lock.Locker {
			return s.handOver(
				mysqllock.NewForUpdate(
					s.MySQL, mysqllock.ConnOptions{MaxHold: s.WatchdogMaxHold},
				),
			)
		},
	}
}
