package lab

import (
	"time"

	"example.com/stock/stack"
)

func redlockClockJump() Scenario {
	return Scenario{
		Name: "redlock-clock-jump", Group: Redlock,
		Title: Text{"A clock jumps on one node of Redlock", "Redlock 的一个节点时钟跳变"},
		Setup: Text{
			"One unit in stock; five masters; a lease of 60 s. A has the lock on nodes 1, 2 and 3: just a majority.",
			"库存 1 件；五个主节点；租约 60 秒。A 在节点 1、2、3 上持有锁：刚好多数派。",
		},
		Forced: Text{
			"A stops before its write. The clock of node 3 jumps two minutes ahead (each Redis has a wall clock of its own, by libfaketime), " +
				"so that the key expires there. B asks, and has nodes 3, 4 and 5. Both write. On a single Redis the same jump takes the only key.",
			"A 停在写入之前。节点 3 的时钟向前跳了两分钟（每个 Redis 由 libfaketime 提供自己的墙上时钟），键在那里过期。" +
				"B 来请求，得到节点 3、4、5。两者都写入。单个 Redis 上，同样的跳变会带走唯一的键。",
		},
		Why: Text{
			"Redis expires keys by its wall clock. Five masters do not agree on the time; that their clocks run at about the same rate is taken for granted. One that does not is enough when the majority was just one.",
			"Redis 按墙上时钟让键过期。五个主节点对时间没有共识；算法只是假定各时钟快慢相近。当多数派刚好是三个时，一个节点不守约就够了。",
		},
		Fix: Text{
			"A fence that the store compares, which Redlock cannot give: its value is random. The watchdog on one Redis loses its key in the same way, and its fence refuses the write.",
			"由存储比较的栅栏令牌，而 Redlock 给不出：它的值是随机的。单 Redis 上的看门狗锁同样会丢键，但它的栅栏令牌会拒绝迟到的写。",
		},
		Needs: []Need{NeedRedis, NeedRedlock, NeedClocks},
		Cases: Cases("", "redlock", "redis-watchdog"),
		Predict: func(_ Case, p Promise) Forecast {
			if p.Fenced {
				return Forecast{Outcome: Refuses, From: "fenced"}
			}
			return Forecast{Outcome: Oversells, From: "fenced: false"}
		},
		Quick: true,
		Run: func(b *Bench) Observation {
			const ahead = 2 * time.Minute
			b.Fresh(stack.Options{Clocks: true}, NeedRedis, NeedRedlock)
			apps := b.Apps(2, "STOCK_REDLOCK_LEASE=60s", "STOCK_LOCK_WATCHDOG_LEASE=60s")
			b.Stock(1)
			var jump func()
			ask := Ask{Pause: []string{BeforeWrite}, Heedless: true}
			var a *Call
			if b.Case.Strategy == "redlock" {
				nodes := b.nodes()
				unblock := nodes.block(3, 4)
				a = b.Begin(apps[0], "A", ask).Paused(BeforeWrite)
				unblock()
				nodes.holders(Text{"when A has the lock", "A 持有锁时"})
				jump = func() { nodes.jump(2, ahead); nodes.holders(Text{"after the jump", "时钟跳变之后"}) }
			} else {
				a = b.Begin(apps[0], "A", ask).Paused(BeforeWrite)
				key := lockKey(b.Case.Strategy, b.SKU)
				jump = func() {
					b.TTL(key)
					b.jump("redis", b.Server(NeedRedis), ahead)
					b.Eventually("the key has expired", func() bool { return b.Redis().Exists(b.Ctx, key).Val() == 0 })
				}
			}
			jump()
			b.Sell(apps[1], "B", Ask{Wait: For(patience)})
			a.Go()
			return lateVerdict(b, a)
		},
	}
}
