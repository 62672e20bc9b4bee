package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

func redisSetNX() Strategy {
	return Strategy{
		Name:     "redis-setnx",
		Endpoint: "/deduct_stock_lock",
		Summary: Text{
			EN: "SET NX PX with a random token, compare-and-delete; tries once and answers busy",
			ZH: "SET NX PX 加随机令牌，比较后删除；只试一次，拿不到就回答“忙”",
		},
		Caveat: Text{
			EN: "Work that is longer than the lease (10 s, not renewed) loses the lock; the fence refuses the late " +
				"write. It is not fair. The lock is lost in a fail-over to a replica that had not received the key " +
				"(lock.replicas makes that unlikely).",
			ZH: "不续期：业务超过 10 秒租约，锁就丢了；不公平；主从切换时副本若还没有该键，锁会丢失（lock.replicas 使之少见）。迟到的写入由栅栏令牌拒绝。",
		},
		Needs:      []string{Redis},
		Promise:    new(redislock.SetNX).Promise(),
		RoundTrips: 2,
		Lock: func(s Servers) lock.Locker {
			return redislock.NewSetNX(s.Redis, redislock.SetNXOptions{
				Lease: s.SetNXLease, Replicas: redislock.Replicas{Number: s.Replicas, Timeout: s.ReplicaTimeout},
			})
		},
	}
}
