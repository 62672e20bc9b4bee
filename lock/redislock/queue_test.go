package redislock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack/stacktest"
)

// A release wakes a waiter at once: most of ten hand-overs take far less than the second after which a waiter asks by itself.
func TestWaitersAreWokenNotPolled(t *testing.T) {
	s := stacktest.Redis(t)
	a, b := watchdog(t, s, redislock.WatchdogOptions{}), watchdog(t, s, redislock.WatchdogOptions{})
	c := client(t, s)
	lease := acquire(t, a, "k")
	var quick int
	for i := range 10 {
		next := []*redislock.Watchdog{b, a}[i%2]
		got := make(chan *lock.Lease, 1)
		go func() {
			l, err := next.Acquire(t.Context(), "k", lock.Options{})
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		awaitQueue(t, c, 1)
		began := time.Now()
		_ = lease.Release()
		lease = <-got
		if took := time.Since(began); took < 500*time.Millisecond {
			quick++
		}
	}
	if quick < 5 { // a busy computer may be late now and then
		t.Errorf("%d of 10 hand-overs were quick: the waiters are not woken", quick)
	}
	_ = lease.Release()
}

// Of ten who wait in three processes each is woken once, when its turn has come: no herd.
func TestWakeUps(t *testing.T) {
	s := stacktest.Redis(t)
	c := client(t, s)
	locks := []*redislock.Watchdog{watchdog(t, s, redislock.WatchdogOptions{}), watchdog(t, s, redislock.WatchdogOptions{}), watchdog(t, s, redislock.WatchdogOptions{})}
	held := acquire(t, locks[0], "k")
	var woken atomic.Int64
	var all sync.WaitGroup
	for i := range int64(10) {
		all.Go(func() {
			lease, err := locks[i%3].Acquire(t.Context(), "k", lock.Options{OnWake: func() { woken.Add(1) }})
			if err != nil {
				t.Error(err)
				return
			}
			_ = lease.Release()
		})
		awaitQueue(t, c, i+1)
	}
	_ = held.Release()
	all.Wait()
	// One whose message was late has asked before it came, and one that was stopped for long is granted the lock again.
	if got := woken.Load(); got > 20 || got == 0 { // a herd has 55
		t.Errorf("%d wake-ups, want one for each of 10 waiters", got)
	}
}

// A waiter that died in the queue is passed over, and one that died as it was granted the lock holds nobody up for a whole lease.
func TestDeadWaiters(t *testing.T) {
	s := stacktest.Redis(t)
	c := client(t, s)
	w := watchdog(t, s, redislock.WatchdogOptions{Lease: time.Minute})
	lease := acquire(t, w, "k")
	now := c.Time(t.Context()).Val().UnixMilli()
	for value, seen := range map[string]int64{"dead:1 long ago": now - 60_000, "dead:2 just now": now} {
		c.RPush(t.Context(), "watchdog:{k}:queue", value)
		c.HSet(t.Context(), "watchdog:{k}:seen", value, seen)
	}
	began := time.Now()
	got := make(chan *lock.Lease, 1)
	go func() {
		next, err := w.Acquire(t.Context(), "k", lock.Options{})
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	awaitQueue(t, c, 3)
	_ = lease.Release()
	next := <-got
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v, want the lease of one grant and a little more", took)
	}
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
	_ = next.Release()
}

// A lost message costs a second, not the lock.
func TestALostGrantIsFound(t *testing.T) {
	s := stacktest.Redis(t)
	c := client(t, s)
	a, b := watchdog(t, s, redislock.WatchdogOptions{}), watchdog(t, s, redislock.WatchdogOptions{})
	lease := acquire(t, a, "k")
	got := make(chan *lock.Lease, 1)
	go func() {
		next, err := b.Acquire(t.Context(), "k", lock.Options{})
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	awaitQueue(t, c, 1)
	c.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
	_ = lease.Release()
	select {
	case next := <-got:
		_ = next.Release()
	case <-time.After(30 * time.Second):
		t.Fatal("the waiter was not served")
	}
}

func awaitQueue(t *testing.T, c redis.UniversalClient, n int64) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if c.LLen(t.Context(), "watchdog:{k}:queue").Val() == n {
			return
		}
	}
	t.Fatalf("the queue is not %d long", n)
}

// Of a process whose first waiter gives up, those behind it keep the place in Redis: they come before who asked later
// elsewhere.
func TestAProcessKeepsItsPlace(t *testing.T) {
	s := servers.Redis(t)
	process := func() lock.Locker {
		return lock.HandOver(watchdog(t, s, redislock.WatchdogOptions{}), lock.Bound{})
	}
	elsewhere, here, there := process(), process(), process()
	key := t.Name()
	held := acquire(t, elsewhere, key)
	short, giveUp := context.WithCancel(t.Context())
	order := make(chan string, 2)
	var all sync.WaitGroup
	come := func(ctx context.Context, l lock.Locker, who string, waiters int) {
		all.Go(func() {
			lease, err := l.Acquire(ctx, key, lock.Options{Owner: who})
			if err == nil {
				order <- who
				_ = lease.Release()
			}
		})
		eventually(t, who+" waits", func() bool {
			standing, err := lock.Inspect(t.Context(), l, key)
			return err == nil && len(standing.Waiters) == waiters
		})
	}
	come(short, here, "first here", 1)
	come(t.Context(), here, "second here", 2)
	come(t.Context(), there, "there", 2) // who knows one of here
	giveUp()
	eventually(t, "the first one is gone", func() bool {
		standing, err := lock.Inspect(t.Context(), here, key)
		return err == nil && len(standing.Waiters) == 2 && standing.Waiters[0].Who == "second here"
	})
	_ = held.Release()
	all.Wait()
	if who := <-order; who != "second here" {
		t.Errorf("%s came before the second one here, who stood there earlier", who)
	}
}
