package lab

import (
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/stack/wire"
)

func zkSessionExpiry() Scenario {
	return Scenario{
		Name: "zk-session-expiry", Group: ZooKeeper,
		Title: Text{"The session expires while the holder works", "业务进行中会话过期"},
		Setup: Text{
			"One unit in stock; sessions of 4 s; the first instance reaches ZooKeeper, and nothing but that, through a proxy.",
			"库存 1 件；会话 4 秒；第一个实例经代理访问 ZooKeeper（仅此一项）。",
		},
		Forced: Text{
			"A stops before its write. The proxy goes silent in both directions: the process runs on, and reaches everything but ZooKeeper. B, on the second instance, waits until it is let in, and sells. Then A goes on.",
			"A 停在写入之前。代理双向静默：进程照常运行，除 ZooKeeper 外一切可达。B 在第二个实例上等到放行并卖出；然后 A 继续。",
		},
		Why: Text{
			"The server deletes the nodes of a session that it has not heard from. It cannot tell the client, and the client's library says so only when it is connected again.",
			"服务器会删掉久无音讯的会话的节点。它无法通知客户端，而客户端库要等重新连上才会说。",
		},
		Fix: Text{
			"A timer of one's own that says LOST before the server can have expired the session, and ends the work; a fence made of the czxid for work that does not listen.",
			"用自己的计时器，在服务器可能判定过期之前就宣布 LOST 并终止业务；对不听话的业务，用由 czxid 得出的栅栏令牌。",
		},
		Needs:   []Need{NeedRedis, NeedZooKeeper},
		Cases:   concat(Cases(told, "zk-sequential", "zk-ephemeral"), Cases(deaf, "zk-sequential", "zk-ephemeral"), Cases(blind, "zk-sequential", "zk-ephemeral")),
		Predict: lateWriter,
		Together: func(benches []*Bench) []Observation {
			const session = "STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s"
			p := benches[0].Proxy(NeedZooKeeper)
			var first, second *App
			for _, b := range benches {
				first, second = b.Apps(1, session, b.Via(NeedZooKeeper))[0], b.Apps(1, session)[0]
				b.Stock(1)
				b.Watch(second)
			}
			for _, b := range benches {
				b.Begin(first, "A", lateAsk(b.Case.Variant)).Paused(BeforeWrite)
			}
			from := time.Now()
			p.Silence(wire.ToServer, wire.ToClient)
			for _, b := range benches {
				b.Begin(second, "B", Ask{Wait: For(patience)})
			}
			for _, b := range benches {
				next := b.calls[1]
				next.Reply()
				b.Interval("wire", Fault, "", from, "silence between %s and ZooKeeper", first.Name)
				b.Evidence(Waited, ms(next.Took()), "B was let in %v after the silence began", next.Took().Round(time.Millisecond))
			}
			seen := each(benches, func(b *Bench) Observation {
				a := b.calls[0]
				if b.Case.Variant != told {
					a.Go()
				}
				return lateVerdict(b, a)
			})
			p.Silence()
			return seen
		},
	}
}

func zkSuspended() Scenario {
	return Scenario{
		Name: "zk-suspended-not-lost", Group: ZooKeeper,
		Title:  Text{"Suspended is not lost", "连接挂起不等于失锁"},
		Setup:  Text{"One unit in stock; the first instance reaches ZooKeeper through a proxy.", "库存 1 件；第一个实例经代理访问 ZooKeeper。"},
		Forced: Text{"A stops before its write. The connection to ZooKeeper breaks, and is there again within the session. B asks and does not wait. Then A goes on.", "A 停在写入之前。到 ZooKeeper 的连接断开，并在会话有效期内恢复。B 来请求且不等待。然后 A 继续。"},
		Why: Text{
			"A session outlives its connection. To give the lock up at every blip throws good work away; to work on without counting the time is the other mistake (zk-session-expiry).",
			"会话比连接活得久。每次抖动都放弃锁，是白白丢掉好端端的业务；不计时间地继续干，则是另一种错误（见 zk-session-expiry）。",
		},
		Fix: Text{
			"Three states: CONNECTED, SUSPENDED (no new leases, the old ones hold while the timer runs), LOST.",
			"三种状态：CONNECTED、SUSPENDED（不发新租约，旧租约在计时内有效）、LOST。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper},
		Cases: stated(Safe, "", "zk-sequential", "zk-ephemeral"),
		Quick: true,
		Run: func(b *Bench) Observation {
			p := b.Proxy(NeedZooKeeper)
			first, second := b.Apps(1, b.Via(NeedZooKeeper), "STOCK_ZOOKEEPER_SESSION_TIMEOUT=30s")[0], b.Apps(1)[0]
			b.Stock(1)
			a := b.Begin(first, "A", Ask{Pause: []string{BeforeWrite}}).Paused(BeforeWrite)
			p.Cut()
			b.Note("wire", "the connection to ZooKeeper is cut")
			b.Eventually("the session has a connection again", func() bool { return p.Connections() > 0 })
			other := b.Begin(second, "B", Ask{Wait: Once()})
			b.must(other.Reply().Outcome == loadtest.Busy, "B is kept out")
			a.Go()
			if reply := a.Reply(); reply.Outcome != loadtest.Accepted {
				b.Judge()
				return Observation{Outcome: Refuses}
			}
			b.Judge()
			return Observation{Outcome: Safe}
		},
	}
}
