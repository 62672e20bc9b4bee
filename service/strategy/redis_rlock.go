package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/redislock/teaching"
)

func redisRLock() Strategy {
	return Strategy{
		Name:     "redis-rlock",
		Endpoint: "/deduct_stock_rlock",
		Summary: Text{
			EN: "Redisson's RLock, built anew: a hash with a 30 s lease renewed every third; a release wakes one " +
				"waiter in each process by a message",
			ZH: "按 Redisson 的 RLock 重新实现：哈希键，30 秒租约每 10 秒续期；释放时用消息在每个进程里唤醒一个等待者",
		},
		Caveat: Text{
			EN: "There is no fence: a holder that was frozen past its lease still writes. There is no order: the " +
				"first to ask after a release, woken or new, gets the lock. A holder that hangs is renewed for " +
				"ever. With lock.lease_time (Redisson's leaseTime) the lease is not renewed at all. Redisson's own " +
				"clients are not excluded, because they use other keys.",
			ZH: "没有栅栏令牌：冻结超过租约的持有者醒来后仍会写入。不公平：被唤醒者与新来者谁先请求谁得到锁。持有者挂起时会一直续期。" +
				"设置 lock.lease_time（即 Redisson 的 leaseTime）后完全不续期。与 Redisson 自己的客户端也不互斥，因为键不同。",
		},
		Needs:      []string{Redis},
		Promise:    new(teaching.RLock).Promise(),
		RoundTrips: 2,
		Lock: func(s Servers) lock.Locker {
			return teaching.NewRLock(s.Redis, teaching.RLockOptions{
				Lease: s.WatchdogLease, LeaseTime: s.LeaseTime, Logger: s.Log,
			})
		},
	}
}
