package scenario

import (
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func zkSessionExpiry() lab.Scenario {
	return lab.Scenario{
		Name:  "zk-session-expiry",
		Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: slices.Concat(
			[]lab.Case{
				byHand("naive", lab.Oversells, "waits-to-be-told"),
				byHand("fixed", lab.Refuses, "counts-the-time-itself"),
			},
			lab.Cases(heedsLoss, "zk-sequential", "zk-ephemeral"),
			lab.Cases(ignoresLoss, "zk-sequential", "zk-ephemeral"),
			lab.Cases(noFence, "zk-sequential", "zk-ephemeral"),
		),
		Predict:  lateWriter,
		Run:      expireUnheard,
		Together: holdInSilence,
	}
}

// holdInSilence cuts off an instance whose customers hold locks, and sends other customers to a second instance.
func holdInSilence(beds []*lab.Testbed) []lab.Outcome {
	const session = "STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s"
	p := beds[0].Proxy(lab.NeedZooKeeper)
	var first, second *lab.App
	for _, b := range beds {
		first, second = b.Apps(1, session, b.Via(lab.NeedZooKeeper))[0], b.Apps(1, session)[0]
		b.Stock(1)
		b.Watch(second)
	}
	for _, b := range beds {
		b.Begin(first, "A", lateRequest(b.Case.Variant)).Paused(lab.BeforeWrite)
	}
	from := time.Now()
	p.Silence(wire.ToServer, wire.ToClient)
	for _, b := range beds {
		b.Begin(second, "B", lab.Request{Wait: lab.For(lab.Patience)})
	}
	for _, b := range beds {
		next := b.Calls()[1]
		b.Require(next.Reply().Outcome == loadtest.Accepted, "B is served")
		b.Interval("wire", lab.Fault, "", from, "silence", "app", first.Name)
		b.Evidence(lab.Waited, next.Took(), "let-in-after-silence", "after", next.Took())
	}
	seen := lab.Each(beds, func(b *lab.Testbed) lab.Outcome {
		a, next := b.Calls()[0], b.Calls()[1]
		if b.Case.Variant != heedsLoss {
			a.Go()
			return lateVerdict(b, a)
		}
		seen := lateVerdict(b, a)
		before := next.Record().AcquiredAt.Sub(a.Record().DoneAt) // both times are from this computer's clock
		b.Evidence(lab.Waited, before, "told-before", "before", before)
		b.Require(before > 0, "A is told before B is let in")
		return seen
	})
	p.Silence()
	return seen
}

// expireUnheard cuts A off while it holds the lock, until the server has expired its session and B has the lock. Then
// it checks whether A would go on.
func expireUnheard(b *lab.Testbed) lab.Outcome {
	const session = 2 * time.Second
	p := zkProxy(b)
	a, other := newQueuerFor(b, "A", p.Addr(), session), newQueuer(b, "B", b.Server(lab.NeedZooKeeper).Addr)
	held, err := a.enter()
	b.Must("A", err)
	alive := time.Now() // before the last request, at which the server restarts the session's clock
	b.Require(a.line()[0] == held, "A has the lock")
	id := a.conn.SessionID()
	from := time.Now()
	p.Silence(wire.ToServer, wire.ToClient)
	mine, err := other.enter()
	b.Must("B", err)
	b.Eventually("the session of A expires", func() bool { return other.line()[0] == mine })
	b.Interval("wire", lab.Fault, "A", from, "old-session-expires", "after", time.Since(from))
	believes := a.conn.SessionID() == id // the library has reported no loss
	if b.Case.Code == "fixed" {
		believes = believes && time.Since(alive) < session*2/3
	}
	b.Evidence(lab.Hold, believes, "both-hold", "a", believes, "b", true)
	seen := lab.Refuses
	if believes {
		seen = bothSell(b, "A", "B")
	} else {
		b.Note("A", "stops-by-its-own-clock")
	}
	expired := time.Now()
	p.Silence()
	b.Eventually("the library tells A", func() bool { return a.conn.SessionID() != id })
	b.Evidence(lab.Waited, time.Since(expired), "told-after-reconnection", "after", time.Since(expired))
	return seen
}
