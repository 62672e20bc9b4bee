package lab

import (
	"time"

	"example.com/stock/loadtest"
)

func holderKilled() Scenario {
	return Scenario{
		Name: "holder-killed", Group: SetNX,
		Title: Text{"The holder is killed: how long until the next one?", "持有者被杀：多久之后轮到下一个？"},
		Setup: Text{
			"Two units of a SKU for each strategy. Leases and sessions are 10 s.",
			"每种策略各有一个 SKU，库存 2 件。租约和会话均为 10 秒。",
		},
		Forced: Text{
			"On the first instance a customer holds each lock and has read. The instance is killed (SIGKILL), once for all. On the second a customer waits for each lock.",
			"第一个实例上，每把锁都有一个客户持有并已读完库存；该实例被杀死一次（SIGKILL）。第二个实例上，每把锁都有一个客户在等待。",
		},
		Why: Text{
			"A lock that is a row or a key with a time limit stays until the limit. One that lives in a session stays until the session is given up. One that lives in a connection is gone with it, if the operating system is still there to close it: when the whole host dies it is not.",
			"以“行”或“键”加时限实现的锁要等到时限；依附会话的锁要等到会话被放弃；依附连接的锁随连接一起消失——前提是操作系统还在、能关闭连接；整台主机宕掉则不然。",
		},
		Fix: Text{
			"A short lease that is renewed: what a crash costs is the lease, what a long one buys is calm.",
			"用短租约加续期：崩溃的代价就是一个租约的时间，长租约换来的只是省心。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper, NeedMySQL, NeedRedlock},
		Cases: Cases("", "redis-setnx-del", "redis-setnx-watch", "redis-setnx", "redis-watchdog", "redlock", "zk-ephemeral", "zk-sequential",
			"mysql-table", "mysql-for-update", "mysql-get-lock", "pessimistic"),
		Predict: func(_ Case, p Promise) Forecast { return freed(p) },
		Together: func(benches []*Bench) []Observation {
			apps := make([][]*App, len(benches))
			for i, b := range benches {
				apps[i] = b.Apps(2, "STOCK_LOCK_WATCHDOG_LEASE=10s") // the same for all
				b.Stock(2)
			}
			for i, b := range benches {
				b.Begin(apps[i][0], "A", Ask{Pause: []string{BeforeWrite}}).Paused(BeforeWrite)
			}
			killed := KillFor(benches, apps[0][0])
			for i, b := range benches {
				b.Watch(apps[i][1])
				b.Begin(apps[i][1], "B", Ask{Wait: For(patience)})
			}
			seen := make([]Observation, len(benches))
			for i, b := range benches {
				next := b.calls[1]
				if reply := next.Reply(); reply.Outcome != loadtest.Accepted {
					b.Fatalf("%s: B was not let in within %v: %s", b.Case, patience, Told(reply))
				}
				after := next.record.AcquiredAt.Sub(killed)
				b.Evidence(Waited, ms(after), "the next holder was in %v after the crash", after.Round(time.Millisecond))
				if b.Judge().Lost() {
					b.Fatalf("%s: stock was lost", b.Case)
				}
				seen[i] = Observation{Outcome: Delays, After: after}
			}
			return seen
		},
	}
}
