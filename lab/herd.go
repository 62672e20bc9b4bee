package lab

import (
	"fmt"

	"github.com/go-zookeeper/zk"

	"example.com/stock/loadtest"
)

// contenders of the herd: each is woken for every turn until its own, or for its own alone.
const contenders = 100

func herd() Scenario {
	return Scenario{
		Name: "herd", Group: ZooKeeper,
		Title: Text{"The herd and the queue", "羊群与队列"},
		Setup: Text{
			fmt.Sprintf("%d contenders for one lock, a session each. And the same against the service, on two instances without hand-over.", contenders),
			fmt.Sprintf("%d 个竞争者争一把锁，各有一个会话；服务上也同样来一次：两个实例，不做进程内移交。", contenders),
		},
		Forced: Text{
			"One has the lock, all others wait. It gives the lock back, and whoever gets it does so too when all others wait again, until all are served. What is counted is how often the server wakes somebody.",
			"一个持有锁，其余都在等。持有者释放，拿到锁的人也等其余人重新等待后再释放，直到全部完成。统计服务器唤醒的次数。",
		},
		Why: Text{
			"Where all watch one node its end wakes all of them, for one to go on: 99 + 98 + ... + 1 = 4950. Where each watches the one before it, one is woken: 99.",
			"所有人盯着同一个节点时，它一消失就惊醒所有人，却只有一个能继续：99 + 98 + … + 1 = 4950。若各自只盯前一个，则每次只唤醒一个：99。",
		},
		Fix: Text{
			"Sequential nodes, and a watch on the predecessor alone.",
			"使用顺序节点，只监视前一个节点。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper},
		Cases: concat([]Case{
			{Code: "naive", Variant: "one node for all", Want: Forecast{Outcome: Herds}},
			{Code: "mended", Variant: "a queue of nodes", Want: Forecast{Outcome: Safe}},
		}, stated(Herds, "", "zk-ephemeral"), stated(Safe, "", "zk-sequential")),
		Run: func(b *Bench) Observation {
			var woken int
			switch b.Case.Code {
			case "naive":
				woken = oneNode(b)
			case "mended":
				woken = queueOfNodes(b)
			default:
				return herdOfRequests(b)
			}
			b.Evidence(Served, woken, "zookeeper: for %d turns it woke somebody %d times", contenders, woken)
			if woken > contenders {
				return Observation{Outcome: Herds}
			}
			return Observation{Outcome: Safe}
		},
	}
}

// oneNode has all of them create the same ephemeral node, and watch it when it is there.
func oneNode(b *Bench) (woken int) {
	waiting := b.queuers()
	node := waiting[0].dir + "/lock"
	ended := make([]<-chan zk.Event, contenders)
	create := func(q *queuer) bool {
		_, err := q.conn.Create(node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		if err != nil && err != zk.ErrNodeExists {
			b.Must(q.who+": create", err)
		}
		return err == nil
	}
	in := 0
	b.must(create(waiting[in]), "the first gets the lock")
	left := make(map[int]bool)
	for i := 1; i < contenders; i++ {
		left[i] = true
	}
	for ; len(left) > 0; delete(left, in) {
		for i := range left {
			exists, _, event, err := waiting[i].conn.ExistsW(node)
			b.Must("exists", err)
			b.must(exists, "the lock is held")
			ended[i] = event
		}
		b.Must("delete", waiting[in].conn.Delete(node, -1))
		for i := range left {
			<-ended[i]
			woken++
		}
		in = -1
		for i := range left {
			if create(waiting[i]) {
				b.must(in < 0, "one gets the lock")
				in = i
			}
		}
	}
	return woken
}

// queueOfNodes has each watch the node before its own.
func queueOfNodes(b *Bench) (woken int) {
	all := b.queuers()
	nodes := make([]string, contenders)
	ended := make([]<-chan zk.Event, contenders)
	for i, q := range all {
		var err error
		nodes[i], err = q.enter()
		b.Must(q.who+": create", err)
		if i > 0 {
			_, _, ended[i], err = q.conn.GetW(q.dir + "/" + nodes[i-1])
			b.Must(q.who+": watch", err)
		}
	}
	for i := range contenders {
		if i > 0 {
			<-ended[i]
			woken++
		}
		all[i].leave(nodes[i])
	}
	return woken
}

func (b *Bench) queuers() []*queuer {
	var all []*queuer
	for i := range contenders {
		all = append(all, b.queuer(fmt.Sprintf("C%d", i+1), b.Server(NeedZooKeeper).Addr))
	}
	return all
}

// herdOfRequests counts what the service was woken for. All requests of an instance share a session, and a turn here may come before all wait
// again, so a herd is a little smaller than it could be.
func herdOfRequests(b *Bench) Observation {
	apps := b.Apps(2, "STOCK_LOCK_HANDOVER=false")
	b.Stock(contenders)
	a := b.Begin(apps[0], "C1", Ask{Pause: []string{BeforeWrite}}).Paused(BeforeWrite)
	for i := 1; i < contenders; i++ {
		b.Begin(apps[i%2], fmt.Sprintf("C%d", i+1), Ask{Wait: For(patience), Pause: []string{BeforeLock}})
	}
	for _, c := range b.calls[1:] {
		c.Paused(BeforeLock)
	}
	for _, c := range b.calls[1:] {
		c.Go()
	}
	a.Go()
	woken := 0
	for _, c := range b.calls {
		reply := c.Reply()
		if reply.Outcome != loadtest.Accepted {
			b.Fatalf("%s was not served: %s", c.Who, Told(reply))
		}
		woken += reply.Wakeups
	}
	j := b.Judge()
	b.must(!j.Lost(), "nothing is lost")
	b.Evidence(Served, woken, "zookeeper: for %d sales it woke a request %d times", contenders, woken)
	if woken > 3*contenders {
		return Observation{Outcome: Herds}
	}
	b.must(woken <= contenders, "each was woken once at most")
	return Observation{Outcome: Safe}
}
