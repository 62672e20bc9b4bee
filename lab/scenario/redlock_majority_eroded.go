package scenario

import (
	"fmt"
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// toppedUp is the variant in which a renewal restores the missing keys before the node loses its key.
const toppedUp = "topped-up-before"

// redlockEroded is known from redsync, whose renewal does not set the key on nodes that lack it:
// https://github.com/go-redsync/redsync/issues/186.
func redlockEroded() lab.Scenario {
	return lab.Scenario{
		Name: "redlock-majority-eroded", Group: lab.Redlock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedRedlock},
		Cases: slices.Concat(
			[]lab.Case{
				{Code: "naive", Variant: "renews-what-is-left", Want: lab.Forecast{Outcome: lab.Oversells}},
				{Code: "fixed", Variant: "counts-what-it-renews", Want: lab.Forecast{Outcome: lab.Refuses}},
			},
			lab.Stated(lab.Safe, toppedUp, "redlock"),
			lab.Cases(heedsLoss, "redlock"), lab.Cases(ignoresLoss, "redlock"),
		),
		Predict: lateWriter,
		Run: func(b *lab.Testbed) lab.Observation {
			nodes := newNodes(b).watch()
			if b.Case.Code != "" {
				return nodes.erodeNaively()
			}
			lease := 60 * time.Second
			if b.Case.Variant != ignoresLoss { // the renewal after a third of the lease must come before the case ends
				lease = 9 * time.Second
			}
			apps := b.Apps(2, fmt.Sprintf("STOCK_REDLOCK_LEASE=%v", lease))
			b.Stock(1)
			unblock := nodes.block(3, 4)
			a := b.Begin(apps[0], "A", lateRequest(b.Case.Variant)).Paused(lab.BeforeWrite)
			nodes.holders("nodes-with-a")
			unblock()
			if b.Case.Variant != toppedUp {
				nodes.forget(2)
				other := b.Sell(apps[1], "B", lab.Request{Wait: lab.For(lab.Patience)})
				b.Require(other.Outcome == loadtest.Accepted, "B gets the other majority")
				if b.Case.Variant == ignoresLoss {
					a.Go()
				}
				return lateVerdict(b, a)
			}
			nodes.awaitAll(lease)
			nodes.holders("nodes-after-a-renewal")
			nodes.forget(2)
			other := b.Begin(apps[1], "B", lab.Request{Pause: []string{lab.BeforeWrite}, Wait: lab.Once()})
			inside := other.PausedOrAnswered(lab.BeforeWrite)
			nodes.holders("nodes-after-the-loss")
			a.Go().Reply()
			if inside {
				other.Go()
			}
			return b.Judge().Seen()
		},
	}
}

// awaitAll waits until all nodes have the key, for at most limit.
func (n *nodes) awaitAll(limit time.Duration) {
	began := time.Now()
	n.b.Eventually("all nodes have the key", func() bool {
		for _, c := range n.clients {
			switch has, err := c.Exists(n.b.Ctx, n.key).Result(); {
			case err != nil:
				n.b.Must("EXISTS", err)
			case has == 0:
				return time.Since(began) > limit
			}
		}
		return true
	})
}

// erodeNaively makes A, which has three of five nodes, lose one and renew on the other two.
func (n *nodes) erodeNaively() lab.Observation {
	b := n.b
	var addrs []string
	for _, server := range n.servers {
		addrs = append(addrs, server.Addr)
	}
	first := newNaiveRedlock(b, addrs, n.key, 2*lab.Patience)
	second := newNaiveRedlock(b, addrs, n.key, 2*lab.Patience)
	b.Defer(func() {
		for _, l := range []*naiveRedlock{first, second} {
			_, _ = l.release(b.Ctx)
		}
	})
	unblock := n.block(3, 4)
	ok, err := first.try(b.Ctx)
	b.Must("A asks", err)
	b.Require(ok, "A has the lock")
	n.holders("nodes-with-a")
	unblock()
	n.forget(2)
	renewed, err := first.renew(b.Ctx)
	b.Must("A renews", err)
	b.Note("A", "renews-on", "nodes", renewed)
	believes := b.Case.Code == "naive" || first.majority(renewed)
	has, err := second.try(b.Ctx)
	b.Must("B asks", err)
	n.holders("nodes-after-the-loss")
	b.Evidence(lab.Hold, []bool{believes, has}, "both-hold", "a", believes, "b", has)
	switch {
	case believes && has:
		return bothSell(b, "A", "B")
	case has:
		return lab.Refuses.Seen() // A stops, and reports the loss
	}
	return lab.Safe.Seen()
}
