package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

// Redlock is the backend of the redlock strategy: several independent Redis masters.
const Redlock = "redlock"

func redlock() Strategy {
	return Strategy{
		Name:     "redlock",
		Endpoint: "/deduct_stock_redlock",
		Summary: Text{
			EN: "the key on a majority of 5 independent Redis masters, asked in parallel; 10 s lease renewed every " +
				"third; no fence",
			ZH: "并行询问 5 个独立的 Redis 主节点，拿到多数派才算加锁；10 秒租约，每三分之一续期；没有栅栏令牌",
		},
		Caveat: Text{
			EN: "There is no fence: its random tokens have no order, so no store can refuse the write of a holder " +
				"that was frozen past its lease, or that lost its majority when a node's clock jumped. It is not " +
				"fair. A node that was restarted does not count for the time of one lease.",
			ZH: "没有栅栏令牌：随机令牌没有先后顺序，存储无法拒绝“冻结超过租约”或因节点时钟跳变而失去多数派的持有者的写入。不公平；节点重启后在一个租约时间内不计票。",
		},
		Needs:      []string{Redlock},
		Promise:    new(redislock.Redlock).Promise(),
		RoundTrips: 2,
		Lock: func(s Servers) lock.Locker {
			l, err := redislock.NewRedlock(s.Redlock, redislock.RedlockOptions{
				Lease:       s.RedlockLease,
				NodeTimeout: s.RedlockNodeTimeout,
				MaxHold:     s.WatchdogMaxHold,
				Quarantine:  s.RedlockQuarantine,
			})
			if err != nil {
				panic(err) // the setting redlock.urls was checked when it was read
			}
			return l
		},
	}
}
