package scenario

import (
	"context"
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// releaseCancelled is known from blnk, which released with the context of a finished request:
// https://github.com/blnkfinance/blnk/pull/355. Redsync's clean-up after a failed acquisition has the same fault.
func releaseCancelled() lab.Scenario {
	const lease = 3 * time.Second
	return lab.Scenario{
		Name: "release-with-a-cancelled-context", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL, lab.NeedRedlock},
		Cases: slices.Concat(
			[]lab.Case{
				byHandWithin(lease, "naive", "with-the-requests-context"),
				byHand("fixed", lab.Safe, "with-a-context-of-its-own"),
			},
			lab.Stated(lab.Safe, "", "redis-setnx-expire", "redis-setnx-del", "redis-setnx-watch", "redis-setnx",
				"redis-rlock", "redis-watchdog", "redlock", "zk-ephemeral", "zk-sequential", "mysql-table",
				"mysql-for-update", "mysql-get-lock", "pessimistic")),
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != "" {
				return releaseNaively(b, lease)
			}
			// A lock that is not released ends after 60 s, that of mysql-table after 10 s.
			const soon = 5 * time.Second
			apps := b.Apps(2, "STOCK_LOCK_SETNX_LEASE=60s", "STOCK_LOCK_WATCHDOG_LEASE=60s", "STOCK_REDLOCK_LEASE=60s")
			b.Stock(2)
			b.Watch(apps[1])
			b.BeginPaused(apps[0], "A", lab.BeforeWrite, lab.Request{}).Leave().Go()
			next := b.Begin(apps[1], "B", lab.Request{Wait: lab.For(lab.Patience / 2)})
			reply := next.Reply()
			b.Evidence(lab.Waited, next.Took(), "answered-b-after", "after", next.Took())
			if b.Judge(); reply.Outcome == loadtest.Accepted && next.Took() < soon {
				return lab.Safe
			}
			return b.Delayed(next.Took())
		},
	}
}

// releaseNaively disconnects A's customer while A works under its lock. In Go, as in most languages, the context of a
// request ends with its connection.
func releaseNaively(b *lab.Testbed, lease time.Duration) lab.Outcome {
	request, gone := context.WithCancel(b.Ctx)
	defer gone()
	a, next := newNaiveLock(b, "A", lease), newNaiveLock(b, "B", lab.Patience)
	a.mustTake()
	b.Note("A", "works-under-the-lock")
	gone()
	from := time.Now()
	b.Note("A", "customer-is-gone")
	release := request
	if b.Case.Code == "fixed" {
		var cancel context.CancelFunc
		release, cancel = context.WithTimeout(context.WithoutCancel(request), lab.Patience)
		defer cancel()
	}
	if err := a.unlock(release); err != nil {
		b.Evidence(lab.Answer, err.Error(), "unlock-was-told", "error", err)
	} else {
		b.Event(unlockOf("A"), "unlock")
	}
	b.TTL(b.SKU)
	if next.takes() {
		b.Evidence(lab.Hold, nil, "b-is-next")
		return lab.Safe
	}
	next.waits()
	after := time.Since(from)
	b.Evidence(lab.Waited, after, "let-in-after-leaving", "after", after)
	return b.Delayed(after)
}
