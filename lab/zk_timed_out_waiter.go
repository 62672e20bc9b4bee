package lab

import (
	"time"

	"example.com/stock/loadtest"
)

func zkTimedOutWaiter() Scenario {
	return Scenario{
		Name: "zk-waiter-leaves-its-node", Group: ZooKeeper,
		Title:  Text{"Who gives up leaves its node in the queue", "放弃等待者把节点留在队列里"},
		Setup:  Text{"A holds the lock, B waits behind it.", "A 持有锁，B 排在其后等待。"},
		Forced: Text{"B's patience ends, and it goes away; its session lives on. Then A gives the lock back, and C comes.", "B 等够了就走了，但它的会话还活着。随后 A 释放锁，C 到来。"},
		Why: Text{
			"Who leaves the queue must take its node along. Left behind it becomes the first, and so the holder: one that does not know of it, and never lets go.",
			"离队的人必须带走自己的节点。留下的节点迟早排到第一，成为一个不自知、也永不放手的持有者。",
		},
		Fix: Text{
			"Delete the node on every way out, on a context of its own, and again until the server has said that it is gone.",
			"每条退出路径都删除节点，使用独立的 context，并重试到服务器确认节点已不在为止。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper},
		Cases: concat([]Case{{Code: "naive", Variant: "does not delete", Want: Forecast{Outcome: Blocks}}}, stated(Safe, "", "zk-sequential", "zk-ephemeral")),
		Quick: true,
		Run: func(b *Bench) Observation {
			if b.Case.Code == "naive" {
				addr := b.Server(NeedZooKeeper).Addr
				a, other, third := b.queuer("A", addr), b.queuer("B", addr), b.queuer("C", addr)
				holder, err := a.enter()
				b.Must("A", err)
				_, err = other.enter()
				b.Must("B", err)
				b.Note("B", "gives up")
				a.leave(holder)
				mine, err := third.enter()
				b.Must("C", err)
				line := third.line()
				who, _ := third.owner(line[0])
				b.Evidence(Served, line, "zookeeper: the queue is %v; the first is of %s, which went away", line, who)
				if line[0] != mine && who == "B" {
					return Observation{Outcome: Blocks}
				}
				return Observation{Outcome: Safe}
			}
			apps := b.Apps(3)
			b.Stock(2)
			a := b.Begin(apps[0], "A", Ask{Pause: []string{BeforeWrite}}).Paused(BeforeWrite)
			gone := b.Begin(apps[1], "B", Ask{Wait: For(500 * time.Millisecond)})
			b.must(gone.Reply().Outcome == loadtest.Busy, "B gives up")
			a.Go().Reply()
			b.must(b.Sell(apps[2], "C", Ask{Wait: For(patience)}).Outcome == loadtest.Accepted, "C is served")
			b.Judge()
			return Observation{Outcome: Safe}
		},
	}
}
