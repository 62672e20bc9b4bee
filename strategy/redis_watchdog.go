package strategy

import (
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

func redisWatchdog() Strategy {
	return Strategy{
		Name:     "redis-watchdog",
		Endpoint: "/deduct_stock_redisson",
		Summary: Text{
			EN: "Redisson-style: waits for its turn, 30 s lease renewed every third, granted in order, not polled",
			ZH: "Redisson 风格：排队等待，30 秒租约每 10 秒续期，按到达顺序授予，不轮询",
		},
		Caveat: Text{
			EN: "That renewal helps a frozen process, which does not renew either (the fence refuses its write); strict order between processes, which take turns of up to 16 holders; survival of a fail-over to a replica that had not heard of the key, which lock.replicas (WAIT) makes unlikely, but not impossible.",
			ZH: "进程被冻结时看门狗也一起冻结（其写入由栅栏令牌拒绝）；进程之间不是严格先来先得，而是轮流，每轮最多 16 个持有者；主从切换时副本若还没有该键，锁会丢失（lock.replicas 即 WAIT 使之少见，但不能杜绝）。",
		},
		Needs: []string{Redis},
		Promise: lock.Promise{
			Exclusive: true, Scope: lock.Cluster, Fenced: true, Fair: true, Blocking: true, Reentrant: true, SignalsLoss: true,
			FreedAfterCrash: 30 * time.Second,
		},
		RoundTrips: 2,
		Lock: func(s Servers) lock.Locker {
			return s.handOver(redislock.NewWatchdog(s.Redis, redislock.WatchdogOptions{
				Lease: s.WatchdogLease, MaxHold: s.WatchdogMaxHold, Logger: s.Log,
				Replicas: s.Replicas, ReplicaTimeout: s.ReplicaTimeout,
			}))
		},
	}
}
