package scenario

import (
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// The variants of a holder whose lease ends while it works.
const (
	heedsLoss   = "heeds-the-loss"
	ignoresLoss = "ignores-the-loss"
	noFence     = "ignores-the-loss-no-fence"
	renews      = "renewed"
)

// lateRequest returns the request of A in a variant.
func lateRequest(variant string) lab.Request {
	return lab.Request{
		Pause:      []string{lab.BeforeWrite},
		IgnoreLoss: variant == ignoresLoss || variant == noFence,
		Unfenced:   variant == noFence,
	}
}

// lateVerdict judges A, whose lease ended, and B, which sold the last unit meanwhile.
func lateVerdict(b *lab.Testbed, a *lab.Call) lab.Observation {
	reply := a.Reply()
	for _, c := range b.Calls() {
		// If a server timed out, this run proves nothing about the lock.
		b.Require(c == a || c.Reply().Problem != "backend_down", c.Who+" is not told that a server is down")
	}
	switch j := b.Judge(); {
	case j.Lost():
		return lab.Oversells.Seen()
	case reply.Problem == "lock_lost" || reply.Problem == "stale_fence":
		return lab.Refuses.Seen()
	case reply.Outcome == loadtest.Accepted:
		return lab.Safe.Seen()
	default:
		b.Fatalf("A was answered %s, which is no outcome of this scenario", lab.Told(reply))
		panic("unreachable")
	}
}

func leaseShorterThanWork() lab.Scenario {
	return lab.Scenario{
		Name: "lease-shorter-than-work", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: slices.Concat(
			lab.Cases(heedsLoss, "redis-setnx", "redis-setnx-expire", "redis-setnx-watch"),
			lab.Cases(ignoresLoss, "redis-setnx", "redis-setnx-expire", "redis-setnx-del", "redis-setnx-watch"),
			lab.Cases(noFence, "redis-setnx"),
			[]lab.Case{
				{Strategy: "redis-rlock", Variant: renews, Want: lab.Forecast{Outcome: lab.Safe}},
				{Strategy: "redis-watchdog", Variant: renews, Want: lab.Forecast{Outcome: lab.Safe}},
				{Strategy: "zk-sequential", Variant: renews, Want: lab.Forecast{Outcome: lab.Safe}},
			}),
		Predict: lateWriter,
		Together: func(beds []*lab.Testbed) []lab.Observation {
			var apps []*lab.App
			for _, b := range beds {
				apps = b.Apps(
					2, "STOCK_LOCK_SETNX_LEASE=1s", "STOCK_LOCK_WATCHDOG_LEASE=4s",
					"STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s",
				)
				b.Stock(1)
				b.Watch(apps[1])
			}
			for _, b := range beds {
				b.Begin(apps[0], "A", lateRequest(b.Case.Variant)).Paused(lab.BeforeWrite)
				wait := lab.Patience
				if b.Case.Variant == renews {
					wait = 6 * time.Second // longer than the lease
				}
				b.Begin(apps[1], "B", lab.Request{Wait: &wait})
			}
			return lab.Each(beds, afterTheLease)
		},
	}
}

// afterTheLease waits for the reply to B, who asks while A works for longer than its lease. Then it resumes A.
func afterTheLease(b *lab.Testbed) lab.Observation {
	a, next := b.Calls()[0], b.Calls()[1]
	busy, took := next.Reply().Outcome == loadtest.Busy, next.Took()
	if busy {
		b.Evidence(lab.Waited, took, "kept-out-past-lease", "for", took)
	} else {
		b.Evidence(lab.Waited, took, "let-in-before-write", "after", took)
	}
	if b.Case.Variant != heedsLoss {
		a.Go()
	}
	return lateVerdict(b, a)
}
