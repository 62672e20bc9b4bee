package scenario

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func redlockSlowQuorum() lab.Scenario {
	return lab.Scenario{
		Name:  "redlock-slow-quorum",
		Group: lab.Redlock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedRedlock},
		Cases: slices.Concat(
			[]lab.Case{byHand("naive", lab.Oversells, "counts-votes")},
			lab.Stated(lab.Refuses, "", "redlock"),
		),
		Run: func(b *lab.Testbed) lab.Outcome {
			nodes := newNodes(b)
			env := nodes.behindProxies()
			if b.Case.Code == "naive" {
				return slowNaive(b, nodes)
			}
			app := b.Apps(1, env, "STOCK_REDLOCK_LEASE=2s", "STOCK_REDLOCK_NODE_TIMEOUT=10s")[0]
			b.Stock(2)
			b.Sell(app, "warm-up", lab.Request{}) // opens the connections to the nodes
			late := nodes.slow()
			a := b.Begin(app, "A", lab.Request{Wait: lab.Once()})
			late(b)
			reply := a.Reply()
			if b.Judge(); reply.Outcome == loadtest.Failed && reply.Problem == "backend_down" {
				return lab.Refuses
			}
			return lab.Safe
		},
	}
}

// slow holds back the replies of three nodes to the next request for the key. late releases them after the key has
// expired on every node.
func (n *nodes) slow() (late func(*lab.Testbed)) {
	held, sprung := n.trap(wire.HoldReply, "reply-is-held-back")
	return func(b *lab.Testbed) {
		sprung()
		n.holders("nodes-before-the-replies")
		b.Eventually("the keys expire", func() bool {
			for _, c := range n.clients {
				err := c.Get(b.Ctx, n.key).Err()
				if err == nil {
					return false
				}
				if !errors.Is(err, redis.Nil) {
					b.Must("GET", err)
				}
			}
			return true
		})
		n.holders("nodes-after-the-lease")
		for _, s := range held {
			s.Release()
		}
	}
}

func slowNaive(b *lab.Testbed, n *nodes) lab.Outcome {
	const lease = 2 * time.Second
	first, second := newNaiveRedlockBehindProxies(n, lease), newNaiveRedlock(n, longLease)
	late := n.slow()
	type answer struct {
		ok  bool
		err error
	}
	asked := make(chan answer, 1)
	b.Defer(func() {
		for _, c := range n.clients {
			_ = c.Del(b.Ctx, n.key).Err()
		}
	})
	b.Go(func(context.Context) {
		ok, err := first.try(b.Ctx)
		asked <- answer{ok, err}
	})
	late(b)
	a := <-asked
	b.Must("A asks", a.err)
	ok, err := second.try(b.Ctx)
	b.Must("B asks", err)
	return bothHold(b, []bool{a.ok, ok}, a.ok, ok)
}
