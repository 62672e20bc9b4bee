package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/redislock/teaching"
)

func redisSetNXExpire() Strategy {
	return Strategy{
		Name:     "redis-setnx-expire",
		Endpoint: "/deduct_stock_setnx_expire",
		Summary: Text{
			EN: "SETNX, then EXPIRE as a second command: a crash between them blocks the key for ever",
			ZH: "先 SETNX，再用第二条命令 EXPIRE：在两条命令之间崩溃，键就永远锁死",
		},
		Caveat: Text{
			EN: "If a holder crashes between its two commands, nobody gets the lock again, unless contenders are " +
				"configured to repair a key without expiry. There is no fence: a holder that was frozen past its " +
				"lease (10 s, not renewed) still writes. It is not fair.",
			ZH: "持有者若在两条命令之间崩溃，后来者永远拿不到锁，除非开启对“无过期时间”键的修复；没有栅栏令牌：冻结超过租约（10 秒，不续期）的持有者仍会写入；不公平。",
		},
		Needs:      []string{Redis},
		Promise:    new(teaching.SetNXExpire).Promise(),
		RoundTrips: 3,
		Lock: func(s Servers) lock.Locker {
			return teaching.NewSetNXExpire(s.Redis, teaching.SetNXExpireOptions{
				Lease: s.SetNXLease, Repair: s.RepairSetNX,
			})
		},
	}
}
