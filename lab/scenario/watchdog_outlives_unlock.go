package scenario

import (
	"context"
	"sync/atomic"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

// watchdogOutlives is known from Redisson, which could register a renewal after the unlock; it then ran for ever:
// https://github.com/redisson/redisson/issues/7272. There are reports of the same since 2018: issues 1626, 3521.
func watchdogOutlives() lab.Scenario {
	const lease = 2 * time.Second
	return lab.Scenario{
		Name: "watchdog-outlives-unlock", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			byHand("naive", lab.Blocks, "goes-on-if-the-unlock-fails"),
			byHand("naive", lab.Blocks, "renews-whatever-is-there"),
			byHandWithin(lease, "fixed", "stops-before-it-unlocks"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Variant == "renews-whatever-is-there" {
				return renewsAnothers(b, lease)
			}
			return unlockFails(b, lease)
		},
	}
}

// A naiveWatchdog extends a key in the background without checking its value.
type naiveWatchdog struct {
	stop    context.CancelFunc
	stopped chan struct{}
	renewed atomic.Int64
}

func newNaiveWatchdog(b *lab.Testbed, l *naiveLock) *naiveWatchdog {
	w := &naiveWatchdog{stopped: make(chan struct{})}
	alive, stop := context.WithCancel(b.Ctx)
	w.stop = stop
	b.Defer(stop)
	b.Go(func(context.Context) {
		defer close(w.stopped)
		for loadtest.Sleep(alive, l.ttl/4) == nil {
			if ok, err := l.redis.PExpire(alive, l.key, l.ttl).Result(); err == nil && ok {
				w.renewed.Add(1)
			}
		}
	})
	return w
}

// unlockFails cuts the request by which A releases its lock.
func unlockFails(b *lab.Testbed, lease time.Duration) lab.Outcome {
	p := b.Proxy(lab.NeedRedis)
	a := newNaiveLockAt(b, "A", b.RedisAt(p.Addr()), lease)
	a.mustTake()
	dog := newNaiveWatchdog(b, a)
	b.Eventually("the watchdog renews", func() bool { return dog.renewed.Load() > 0 })
	lost := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.Cut, Match: wire.Contains("'DEL'")})
	if b.Case.Code == "fixed" {
		dog.stop()
		<-dog.stopped
		b.Note("A", "watchdog-stops")
	}
	from := time.Now()
	err := a.unlock(b.Ctx)
	b.Sprung(lost, "unlock-is-lost")
	b.Require(err != nil, "the unlock fails")
	b.Evidence(lab.Answer, err.Error(), "unlock-was-told", "error", err)
	return waitsForWatchdog(b, dog, from, lease)
}

// renewsAnothers makes A unlock while its watchdog goes on. Then B takes the lock and dies.
func renewsAnothers(b *lab.Testbed, lease time.Duration) lab.Outcome {
	a, dead := newNaiveLock(b, "A", lease), newNaiveLock(b, "B", lease)
	a.mustTake()
	dog := newNaiveWatchdog(b, a)
	a.gives()
	dead.mustTake()
	b.Note("B", "gets-it-and-dies")
	return waitsForWatchdog(b, dog, time.Now(), lease)
}

// waitsForWatchdog waits for the lock for two leases.
func waitsForWatchdog(b *lab.Testbed, dog *naiveWatchdog, from time.Time, lease time.Duration) lab.Outcome {
	b.TTL(b.SKU)
	before := dog.renewed.Load()
	patient, cancel := context.WithTimeout(b.Ctx, 2*lease)
	defer cancel()
	ok, err := newNaiveLock(b, "C", lab.Patience).lock(patient)
	b.Must("the next one waits", err)
	after := time.Since(from)
	if ok {
		b.Evidence(lab.Waited, after, "next-was-let-in", "after", after)
		return b.Delayed(after)
	}
	b.TTL(b.SKU)
	b.Evidence(lab.Waited, after, "watchdog-goes-on", "after", after, "times", dog.renewed.Load()-before)
	return lab.Blocks
}
