package lab

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

func herd() Scenario {
	const waiters = 99
	return Scenario{
		Name: "herd", Group: ZooKeeper,
		Title: Text{"The herd and the queue", "羊群与队列"},
		Setup: Text{
			fmt.Sprintf("A holds the lock, and %d wait for it, on two instances, each a contender of its own (no hand-over).", waiters),
			fmt.Sprintf("A 持有锁，%d 个人在两个实例上等待，每个请求都是独立的竞争者（不做进程内移交）。", waiters),
		},
		Forced: Text{
			"When the server has all of them waiting A gives the lock back. Whoever gets it does so too, when all others wait again, until all are served. What is counted is how often the server woke somebody.",
			"等服务器确认所有人都在等待后，A 释放锁；拿到锁的人也等其余人重新等待后再释放，直到全部完成。统计服务器唤醒的次数。",
		},
		Why: Text{
			"Where all watch one node its end wakes all of them, for one to go on: 99 + 98 + ... + 1. Where each watches the one before it, one is woken.",
			"所有人盯着同一个节点时，它一消失就惊醒所有人，却只有一个能继续：99 + 98 + … + 1。若各自只盯前一个，则每次只唤醒一个。",
		},
		Fix: Text{
			"Sequential nodes, and a watch on the predecessor alone.",
			"使用顺序节点，只监视前一个节点。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper},
		Cases: concat(stated(Herds, "", "zk-ephemeral"), stated(Safe, "", "zk-sequential")),
		Run: func(b *Bench) Observation {
			apps := b.Apps(2, "STOCK_LOCK_HANDOVER=false", "STOCK_WORK=60s")
			b.Stock(waiters + 1)
			a := b.Begin(apps[0], "A", Ask{Pause: []string{BeforeWrite}}).Paused(BeforeWrite)
			before := b.watches()
			for i := range waiters {
				b.Begin(apps[i%2], fmt.Sprintf("B%d", i+1), Ask{Pause: []string{BeforeWrite}, Wait: For(2 * patience)})
			}
			woken, in := 0, a
			for left := waiters; left > 0; left-- {
				b.Eventually(fmt.Sprintf("%d are waiting", left), func() bool { return b.watches()-before == left })
				in.Go().Reply()
				in = b.holding(apps[0])
				in.Paused(BeforeWrite)
			}
			in.Go()
			for _, c := range b.calls {
				reply := c.Reply()
				if reply.Outcome != loadtest.Accepted {
					b.Fatalf("%s was not served: %s", c.Who, Told(reply))
				}
				woken += reply.Wakeups
			}
			b.Evidence(Served, woken, "zookeeper: for %d turns it woke somebody %d times", waiters, woken)
			j := b.Judge()
			b.must(!j.Lost(), "nothing is lost")
			if woken == waiters*(waiters+1)/2 {
				return Observation{Outcome: Herds}
			}
			b.must(woken == waiters, "each was woken once")
			return Observation{Outcome: Safe}
		},
	}
}

// holding is the call that has the lock now, as the server has it. It is not one that has been answered.
func (b *Bench) holding(asked *App) (in *Call) {
	b.Eventually("somebody has the lock", func() bool {
		who, _ := b.Holder(asked)
		for _, c := range b.calls {
			if strings.HasSuffix(who, "/"+c.Who) && !c.Answered() {
				in = c
			}
		}
		return in != nil
	})
	return in
}

// watches is how many watches ZooKeeper keeps.
func (b *Bench) watches() int {
	conn, err := net.DialTimeout("tcp", b.Server(NeedZooKeeper).Addr, patience)
	b.Must("dial zookeeper", err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, err = conn.Write([]byte("mntr"))
	b.Must("mntr", err)
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), "\t"); name == "zk_watch_count" {
			n, err := strconv.Atoi(value)
			b.Must("zk_watch_count", err)
			return n
		}
	}
	b.Fatalf("zookeeper does not say how many watches it keeps")
	panic("unreachable")
}
