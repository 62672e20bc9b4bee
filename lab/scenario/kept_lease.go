package scenario

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// This file has what the scenarios of kept leases share; see lock.HandOver.

const keptLease = 2 * time.Second

// keptFreed is when a waiter has the lock of a keeper that cannot give it back: it repeats its request every second.
const keptFreed = keptLease + time.Second

// keeping returns the environment of instances that keep their leases for longer than any customer here waits.
func keeping() []string {
	return []string{"STOCK_LOCK_KEEP=1m", fmt.Sprintf("STOCK_LOCK_WATCHDOG_LEASE=%v", keptLease)}
}

// keep sells to who at an instance until it keeps the lease, and returns the value of the lock's key, which names the
// lease. The first leases may not be kept, because the instance's subscription is not confirmed yet.
func keep(b *lab.Testbed, keeper *lab.App, who string) (lease string) {
	sold := 0
	b.Eventually("the lease is kept", func() bool {
		sold++
		reply := b.Sell(keeper, fmt.Sprintf("%s%d", who, sold), lab.Request{})
		b.Require(reply.Outcome == loadtest.Accepted, "a customer of the keeper is served")
		lease = keptBy(b)
		return lease != ""
	})
	b.Evidence(lab.Hold, lease, "lease-is-kept")
	return lease
}

// keptBy returns the value of the lock's key; "": the lock is free.
func keptBy(b *lab.Testbed) string {
	value, err := b.Redis().Get(b.Ctx, lockKey(b.Case.Strategy, b.SKU)).Result()
	if !errors.Is(err, redis.Nil) {
		b.Must("GET", err)
	}
	return value
}

// useKept begins the sale of A under the kept lease, and returns when A is before its write.
func useKept(b *lab.Testbed, keeper *lab.App, lease string) *lab.Call {
	a := b.Begin(keeper, "A", lateRequest(b.Case.Variant)).Paused(lab.BeforeWrite)
	b.Require(keptBy(b) == lease, "A has the kept lease")
	return a
}

// letIn lets B ask another instance, and returns B before its write, and how long it has waited for the lock since.
func letIn(b *lab.Testbed, other *lab.App, since time.Time) (next *lab.Call, waited time.Duration) {
	next = b.Begin(other, "B", lab.Request{Wait: lab.For(lab.Patience), Pause: []string{lab.BeforeWrite}}).
		Paused(lab.BeforeWrite)
	waited = time.Since(since)
	b.Evidence(lab.Waited, waited, "let-in", "after", waited)
	return next, waited
}

// afterKeeper judges a keeper that could not know that its lease has ended and that B, which is before its write, has
// the next one. back makes the keeper's servers reachable again.
func afterKeeper(b *lab.Testbed, keeper *lab.App, next *lab.Call, waited time.Duration, back func()) lab.Observation {
	early := b.Sell(keeper, "C", lab.Request{Wait: lab.Once()})
	b.Evidence(lab.Answer, nil, "was-told", "who", "C", "answer", lab.Told(early))
	next.Go()
	sold := next.Reply()
	back()
	later := b.Sell(keeper, "D", lab.Request{Wait: lab.For(lab.Patience)})
	switch j := b.Judge(); {
	case j.Lost():
		return lab.Oversells.Seen()
	case early.Outcome == loadtest.Accepted || early.Problem == "stale_fence" || early.Problem == "lock_lost":
		return lab.Refuses.Seen() // C had the old lease
	}
	b.Require(sold.Outcome == loadtest.Accepted && later.Outcome == loadtest.Accepted, "B and D are served")
	b.Require(later.Fence > sold.Fence, "the keeper has a new lease")
	return lab.Delayed(waited)
}
