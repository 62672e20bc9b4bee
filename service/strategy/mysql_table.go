package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/mysqllock"
)

func mysqlTable() Strategy {
	return Strategy{
		Name:     "mysql-table",
		Endpoint: "/deduct_stock_mysql_table",
		Summary: Text{
			EN: "a row per SKU in a lock table, with owner and a 10 s lease by the server's clock, renewed every third",
			ZH: "锁表中每个 SKU 一行，记录持有者，10 秒租约按数据库时钟计算，每三分之一租约续期一次",
		},
		Caveat: Text{
			EN: "It is neither fast nor fair: a table wakes no waiters, so they poll, and the first to poll after " +
				"a release gets the lock. A database clock that is set ahead, or a fail-over to a replica that " +
				"lags, ends leases early; the fence refuses the late write.",
			ZH: "既不快也不公平：表不会唤醒任何人，等待者只能轮询，谁恰好在释放时查询，谁先得。数据库时钟被拨快，或切换到落后的副本，都会使租约提前失效；迟到的写入由栅栏令牌拒绝。",
		},
		Needs:      []string{MySQL},
		Promise:    new(mysqllock.Table).Promise(),
		RoundTrips: 2,
		Lock: func(s Servers) lock.Locker {
			return s.handOver(mysqllock.NewTable(s.MySQL, mysqllock.TableOptions{MaxHold: s.WatchdogMaxHold}))
		},
	}
}
