package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/redislock/teaching"
)

func redisSetNXDel() Strategy {
	return Strategy{
		Name:     "redis-setnx-del",
		Endpoint: "/deduct_stock_setnx_del",
		Summary: Text{
			EN: "SET NX EX with a value that is the same for everybody, released by a plain DEL, which deletes " +
				"another's lock",
			ZH: "SET NX EX，所有人的值都一样，用 DEL 直接释放：会删掉别人的锁",
		},
		Caveat: Text{
			EN: "Exclusion ends when a holder works past its lease (10 s, not renewed): its DEL deletes the lock " +
				"of the next holder, which does not notice, and a third one enters. There is no fence to refuse " +
				"their writes, and no fairness.",
			ZH: "只要有人的业务超过租约（10 秒，不续期），互斥就没有了：它的 DEL 会删掉下一个持有者的锁，后者毫不知情，第三个人又进来。没有栅栏令牌阻止写入，也不公平。",
		},
		Needs:      []string{Redis},
		Promise:    new(teaching.SetNXDel).Promise(),
		RoundTrips: 2,
		Lock: func(s Servers) lock.Locker {
			return teaching.NewSetNXDel(s.Redis, teaching.SetNXOptions{Lease: s.SetNXLease})
		},
	}
}
