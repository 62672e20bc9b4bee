package scenario

import (
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// contenders is the size of the herd. Each is woken at every release until it gets the lock, or only once.
const contenders = 100

func herd() lab.Scenario {
	return lab.Scenario{
		Name: "herd", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: slices.Concat([]lab.Case{
			{Code: "naive", Variant: "one-node-for-all", Want: lab.Forecast{Outcome: lab.Herds}},
			{Code: "mended", Variant: "a-queue-of-nodes", Want: lab.Forecast{Outcome: lab.Safe}},
		}, lab.Stated(lab.Herds, "", "zk-ephemeral"), lab.Stated(lab.Safe, "", "zk-sequential", "zk-merged")),
		Run: func(b *lab.Testbed) lab.Observation {
			var woken int
			switch b.Case.Code {
			case "naive":
				woken = oneNode(b)
			case "mended":
				woken = queueOfNodes(b)
			default:
				return herdOfRequests(b)
			}
			b.Evidence(lab.Served, woken, "woken-for-turns", "turns", contenders, "times", woken)
			if woken > contenders {
				return lab.Herds.Seen()
			}
			return lab.Safe.Seen()
		},
	}
}

// oneNode makes all contenders create the same ephemeral node, and watch it if it exists. It returns the number of
// wake-ups.
func oneNode(b *lab.Testbed) (woken int) {
	waiting := newQueuers(b)
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
			woken++
		}
		in = -1
		for i := range left {
			if create(waiting[i]) {
				b.Require(in < 0, "one gets the lock")
				in = i
			}
		}
	}
	return woken
}

// queueOfNodes makes each contender watch the node before its own. It returns the number of wake-ups.
func queueOfNodes(b *lab.Testbed) (woken int) {
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
			woken++
		}
		all[i].leave(nodes[i])
	}
	return woken
}

func newQueuers(b *lab.Testbed) []*queuer {
	var all []*queuer
	for i := range contenders {
		all = append(all, newQueuer(b, fmt.Sprintf("C%d", i+1), b.Server(lab.NeedZooKeeper).Addr))
	}
	return all
}

// herdOfRequests counts the wake-ups in the service. All requests of an instance share a session, and the lock may be
// released before all wait again, so a herd is a little smaller than it could be.
func herdOfRequests(b *lab.Testbed) lab.Observation {
	apps := b.Apps(2, "STOCK_LOCK_HANDOVER=false")
	b.Stock(contenders)
	a := b.BeginPaused(apps[0], "C1", lab.BeforeWrite, lab.Request{})
	for i := 1; i < contenders; i++ {
		r := lab.Request{Wait: lab.For(lab.Patience), Pause: []string{lab.BeforeLock}}
		b.Begin(apps[i%2], fmt.Sprintf("C%d", i+1), r)
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
	b.Evidence(lab.Served, woken, "woken-for-sales", "sales", contenders, "times", woken)
	if woken > 3*contenders {
		return lab.Herds.Seen()
	}
	b.Require(woken <= contenders, "each was woken once at most")
	return lab.Safe.Seen()
}
