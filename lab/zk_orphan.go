package lab

import (
	"example.com/stock/loadtest"
	"example.com/stock/stack/wire"
)

func zkOrphan() Scenario {
	return Scenario{
		Name: "zk-orphan-after-a-lost-reply", Group: ZooKeeper,
		Title: Text{"The reply to create is lost, the node is not", "create 的回复丢了，节点没丢"},
		Setup: Text{"One unit in stock; A reaches ZooKeeper through a proxy.", "库存 1 件；A 经代理访问 ZooKeeper。"},
		Forced: Text{
			"A creates its node in the queue. The server does it; the connection breaks instead of the reply. A's session lives on. A tries again.",
			"A 在队列里创建自己的节点。服务器照办，但连接在回复之前断开。A 的会话仍然存活。A 重试。",
		},
		Why: Text{
			"A node of a living session stays. Code that does not know that it made one makes another, and waits for the first: its own ghost stands before it, and before everybody else.",
			"会话活着，节点就在。代码不知道自己已经建过一个，又建了一个，并等着前一个：它自己的幽灵挡在它和所有人前面。",
		},
		Fix: Text{
			"Put a GUID into the name (Curator's protected mode). After a lost reply look for it among the children; if it is there and of this session, it is ours.",
			"把 GUID 放进节点名（Curator 的 protected 模式）。回复丢失后在子节点里找它；若存在且属于本会话，就是我们的。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper},
		Cases: concat([]Case{{Code: "naive", Variant: "tries again", Want: Forecast{Outcome: Blocks}}}, stated(Safe, "", "zk-sequential")),
		Quick: true,
		Run: func(b *Bench) Observation {
			p := b.Proxy(NeedZooKeeper)
			if b.Case.Code == "naive" {
				q := b.queuer("A", p.Addr())
				lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: wire.Contains(q.dir + "/lock-")})
				_, err := q.enter()
				b.Sprung(lost, Text{"the reply to create is lost", "create 的答复丢失"})
				b.must(err != nil, "A is told that the connection is lost")
				var node string
				b.Eventually("A is connected again, and creates", func() bool {
					node, err = q.enter()
					return err == nil
				})
				line := q.line()
				first, own := q.owner(line[0])
				b.Evidence(Served, line, "zookeeper: the queue is %v; A waits for %s, which is of %s, its own session: %t", line, line[0], first, own)
				if line[0] != node && own {
					return Observation{Outcome: Blocks}
				}
				return Observation{Outcome: Safe}
			}
			first, second := b.Apps(1, b.Via(NeedZooKeeper))[0], b.Apps(1)[0]
			b.Stock(2)
			lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: func(m []byte) bool {
				return wire.Contains(b.SKU)(m) && wire.Contains("-lock-")(m)
			}})
			a := b.Begin(first, "A", Ask{Wait: For(patience)})
			b.Sprung(lost, Text{"the reply to create is lost", "create 的答复丢失"})
			a.Reply()
			next := b.Sell(second, "B", Ask{Wait: For(patience)})
			b.must(a.record.Outcome == loadtest.Accepted && next.Outcome == loadtest.Accepted, "both are served")
			b.Judge()
			return Observation{Outcome: Safe}
		},
	}
}
