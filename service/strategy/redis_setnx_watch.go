package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/redislock/teaching"
)

func redisSetNXWatch() Strategy {
	return Strategy{
		Name:     "redis-setnx-watch",
		Endpoint: "/deduct_stock_setnx_watch",
		Summary: Text{
			EN: "SET NX PX with a random token, released by WATCH, GET, MULTI, DEL, EXEC: compare-and-delete " +
				"without Lua",
			ZH: "SET NX PX 加随机令牌，用 WATCH、GET、MULTI、DEL、EXEC 释放：不用 Lua 的比较后删除",
		},
		Caveat: Text{
			EN: "There is no fence: a holder that was frozen past its lease (10 s, not renewed) still writes. It " +
				"is not fair. It is slower than a script: a release takes three round trips on one connection.",
			ZH: "没有栅栏令牌：冻结超过租约（10 秒，不续期）的持有者仍会写入。不公平；也不如 Lua 脚本快：释放一次要在同一连接上往返三次。",
		},
		Needs:      []string{Redis},
		Promise:    new(teaching.SetNXWatch).Promise(),
		RoundTrips: 5,
		Lock: func(s Servers) lock.Locker {
			return teaching.NewSetNXWatch(s.Redis, teaching.SetNXOptions{Lease: s.SetNXLease})
		},
	}
}
