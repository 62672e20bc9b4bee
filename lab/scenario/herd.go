package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// contenders is the size of the herd.
const contenders = 100

func herd() lab.Scenario {
	return lab.Scenario{
		Name: "herd", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Slow:  true,
		Cases: slices.Concat([]lab.Case{
			byHand("naive", lab.Herds, "one-node-for-all"),
			byHand("fixed", lab.Safe, "a-queue-of-nodes"),
		}, lab.Stated(lab.Herds, "", "zk-ephemeral"),
			lab.Stated(lab.Safe, "", "zk-sequential", "redis-rlock", "redis-watchdog")),
		Run: func(b *lab.Testbed) lab.Outcome {
			var woken int
			var turns []int
			switch b.Case.Code {
			case "naive":
				turns = oneNode(b)
			case "fixed":
				turns = queueOfNodes(b)
			default:
				return herdOfRequests(b)
			}
			for _, n := range turns {
				woken += n
			}
			turned := lab.CaseEvent{At: time.Now(), Lane: "zookeeper", Kind: lab.Note, Woken: turns}
			b.Event(turned, "woken-by-each-release")
			b.Evidence(lab.Served, woken, "woken-for-turns", "turns", contenders, "times", woken)
			if woken > contenders {
				return lab.Herds
			}
			return lab.Safe
		},
	}
}

// oneNode makes all contenders create the same ephemeral node, and watch it if it exists. It returns the number of
// waiters that each release woke.
func oneNode(b *lab.Testbed) (turns []int) {
	waiting := newQueuers(b)
	node := waiting[0].dir + "/lock"
	ended := make([]<-chan zk.Event, contenders)
	create := func(q *queuer) bool {
		_, err := q.create(node, nil, zk.FlagEphemeral)
		if err != nil && err != zk.ErrNodeExists {
			b.Must(q.who+": create", err)
		}
		return err == nil
	}
	in := 0
	b.Require(create(waiting[in]), "the first gets the lock")
	left := make(map[int]bool)
	for i := 1; i < contenders; i++ {
		left[i] = true
	}
	for ; len(left) > 0; delete(left, in) {
		for i := range left {
			exists, _, event, err := waiting[i].conn.ExistsW(node)
			b.Must("exists", err)
			b.Require(exists, "the lock is held")
			ended[i] = event
		}
		b.Must("delete", waiting[in].conn.Delete(node, -1))
		for i := range left {
			<-ended[i]
		}
		turns = append(turns, len(left))
		in = -1
		for i := range left {
			if create(waiting[i]) {
				b.Require(in < 0, "one gets the lock")
				in = i
			}
		}
	}
	return turns
}

// queueOfNodes makes each contender watch the node before its own. It returns the number of waiters that each release
// woke.
func queueOfNodes(b *lab.Testbed) (turns []int) {
	all := newQueuers(b)
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
			turns = append(turns, 1)
		}
		all[i].leave(nodes[i])
	}
	return turns
}

func newQueuers(b *lab.Testbed) []*queuer {
	var all []*queuer
	for i := range contenders {
		all = append(all, newQueuer(b, fmt.Sprintf("C%d", i+1), b.Server(lab.NeedZooKeeper).Addr))
	}
	return all
}

// herdOfRequests counts the wake-ups in the service. The lock may be released before all woken requests wait again, so
// a herd is slightly smaller than the number of waiters.
func herdOfRequests(b *lab.Testbed) lab.Outcome {
	const instances = 2
	apps := b.Apps(instances, "STOCK_LOCK_HANDOVER=false")
	b.Stock(contenders)
	a := b.BeginPaused(apps[0], "C1", lab.BeforeWrite, lab.Request{})
	for i := 1; i < contenders; i++ {
		r := lab.Request{Wait: lab.For(lab.Patience), Pause: []string{lab.BeforeLock}}
		b.Begin(apps[i%instances], fmt.Sprintf("C%d", i+1), r)
	}
	for _, c := range b.Calls()[1:] {
		c.Paused(lab.BeforeLock)
	}
	for _, c := range b.Calls()[1:] {
		c.Go()
	}
	a.Go()
	woken := 0
	for _, c := range b.Calls() {
		reply := c.Reply()
		if reply.Outcome != loadtest.Accepted {
			b.Fatalf("%s was not served: %s", c.Who, lab.Told(reply))
		}
		woken += reply.Wakeups
	}
	j := b.Judge()
	b.Require(!j.Lost(), "nothing is lost")
	served := slices.Clone(b.Calls())
	slices.SortFunc(served, func(x, y *lab.Call) int {
		return x.Record().AcquiredAt.Compare(y.Record().AcquiredAt)
	})
	var turns []int
	for _, c := range served {
		turns = append(turns, c.Record().Wakeups)
	}
	b.Event(lab.CaseEvent{At: time.Now(), Lane: "lock", Kind: lab.Note, Woken: turns}, "woken-before-its-turn")
	b.Evidence(lab.Served, woken, "woken-for-sales", "sales", contenders, "times", woken)
	if woken > 3*contenders {
		return lab.Herds
	}
	most := contenders
	if b.Case.Strategy == "redis-rlock" {
		most *= instances // each instance wakes one, of which one gets the lock
	}
	b.Require(woken <= most, "no more are woken than is said of this lock")
	return lab.Safe
}
