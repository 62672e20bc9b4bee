package scenario

import (
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

// redlockMinorityLeft is known from the algorithm, which requires unlocking all instances, even those on which locking
// seemed to fail: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
func redlockMinorityLeft() lab.Scenario {
	const lease = 3 * time.Second
	return lab.Scenario{
		Name: "redlock-partial-minority-left", Group: lab.Redlock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedRedlock},
		Cases: slices.Concat(
			[]lab.Case{
				byHandWithin(lease, "naive", "leaves-what-it-got"),
				byHand("fixed", lab.Safe, "takes-it-back"),
			},
			lab.Stated(lab.Safe, "", "redlock"),
		),
		Run: func(b *lab.Testbed) lab.Outcome {
			nodes := newNodes(b)
			env := nodes.behindProxies()
			if b.Case.Code != "" {
				return nodes.minorityNaively(lease)
			}
			const long = "STOCK_REDLOCK_LEASE=60s"
			first, second := b.Apps(1, env, long)[0], b.Apps(1, long)[0]
			b.Stock(2)
			b.Sell(first, "warm-up", lab.Request{}) // opens the connections to the nodes
			_, cut := nodes.trap(wire.Cut, "request-is-lost")
			a := b.Begin(first, "A", lab.Request{Wait: lab.Once()})
			cut()
			b.Require(a.Reply().Outcome != loadtest.Accepted, "A does not get the lock")
			nodes.holders("nodes-after-the-failure")
			nodes.killTwo()
			next := b.Begin(second, "B", lab.Request{Wait: lab.For(lab.Patience / 2)})
			reply := next.Reply()
			b.Evidence(lab.Waited, next.Took(), "answered-b-after", "after", next.Took())
			if b.Judge(); reply.Outcome == loadtest.Accepted {
				return lab.Safe
			}
			return b.Delayed(lab.Patience)
		},
	}
}

// killTwo kills nodes 4 and 5 until the case ends, so that a majority needs the other three.
func (n *nodes) killTwo() {
	n.kill(3)
	n.kill(4)
}

// minorityNaively makes A get two of five nodes and keep them. Then B asks, with code that releases a minority.
func (n *nodes) minorityNaively(lease time.Duration) lab.Outcome {
	b := n.b
	a := newNaiveRedlockBehindProxies(n, lease)
	_, cut := n.trap(wire.Cut, "request-is-lost")
	ok, err := a.try(b.Ctx)
	from := time.Now()
	cut()
	b.Require(!ok && err != nil, "A does not get the lock")
	if b.Case.Code == "fixed" {
		gone, err := a.release(b.Ctx)
		b.Must("A takes back", err)
		b.Note("A", "takes-back", "nodes", gone)
	}
	n.holders("nodes-after-the-failure")
	n.killTwo()
	next := newNaiveRedlock(n, longLease)
	tries := 0
	b.Eventually("B gets the lock", func() bool {
		ok, _ := next.try(b.Ctx) // two nodes never answer
		if tries++; tries == 1 {
			n.holders("nodes-when-b-asks")
		}
		_, _ = next.release(b.Ctx) // also the minority
		return ok
	})
	after := time.Since(from)
	b.Evidence(lab.Waited, after, "let-in-on-try", "after", after, "try", tries)
	if tries == 1 {
		return lab.Safe
	}
	return b.Delayed(after)
}
