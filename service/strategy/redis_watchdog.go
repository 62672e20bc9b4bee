package strategy

import (
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

func redisWatchdog() Strategy {
	return Strategy{
		Name:     "redis-watchdog",
		Endpoint: "/deduct_stock_redisson",
		Summary: Text{
			EN: "like Redisson's RLock: waits, woken and not polled, with a 30 s lease renewed every third; unlike " +
				"it: first come, first served, and fenced",
			ZH: "像 Redisson 的 RLock：会等待，靠通知唤醒而不轮询，30 秒租约每 10 秒续期；与它不同：先来先得，并带栅栏令牌",
		},
		Caveat: Text{
			EN: "A frozen process does not renew (the fence refuses its write). Order between processes is not " +
				"strict: they take turns of up to 16 holders. The lock is lost in a fail-over to a replica that " +
				"had not received the key; lock.replicas (WAIT) makes that unlikely, but not impossible (it is off " +
				"by default; Redisson checks replicas by default). Redisson's own clients are not excluded, " +
				"because they use other keys.",
			ZH: "进程被冻结时看门狗也一起冻结（其写入由栅栏令牌拒绝）；进程之间不是严格先来先得，而是轮流，每轮最多 16 个持有者；主从切换时副本若还没有该键，锁会丢失（lock.replicas 即 WAIT " +
				"使之少见，但不能杜绝；它默认关闭，而 Redisson 默认检查副本）；与 Redisson 自己的客户端也不互斥，因为键不同。",
		},
		Needs:      []string{Redis},
		Promise:    new(redislock.Watchdog).Promise(),
		RoundTrips: 2,
		Lock: func(s Servers) lock.Locker {
			l := redislock.NewWatchdog(s.Redis, redislock.WatchdogOptions{
				Lease: s.WatchdogLease, LeaseTime: s.LeaseTime, MaxHold: s.WatchdogMaxHold, Logger: s.Log,
				Replicas: redislock.Replicas{Number: s.Replicas, Timeout: s.ReplicaTimeout},
			})
			if s.LeaseTime > 0 {
				return l // without lock.HandOver, under which up to sixteen holders in turn share one lease
			}
			return s.handOver(l)
		},
	}
}
