package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
	"example.com/stock/stack/wire"
)

func busy(t *testing.T, l lock.Locker) error {
	t.Helper()
	return busyWith(t, l, "k")
}

// busyWith tries once, and gives back what it gets.
func busyWith(t *testing.T, l lock.Locker, key string) error {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, lock.Options{TryOnce: true})
	if err == nil {
		_ = lease.Release()
	}
	return err
}

func TestRedlockConforms(t *testing.T) {
	m := fiveMasters(t)
	conform(t, byHandPromise(),
		func(t testing.TB) lock.Locker { return m.redlock(t, redislock.RedlockOptions{}) })
}

func TestRedlockNeedsAMajority(t *testing.T) {
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{})
	for down := range 3 {
		lease := acquire(t, r, "k")
		if got := m.with(t); got != 5-down {
			t.Errorf("with %d nodes down the key is on %d, want %d", down, got, 5-down)
		}
		if err := busy(t, m.redlock(t, redislock.RedlockOptions{})); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("with %d nodes down another got %v, want ErrHeld", down, err)
		}
		if err := lease.Release(); err != nil {
			t.Errorf("release with %d nodes down: %v", down, err)
		}
		m.each(t, 4-down, 5-down, (*stack.Server).Kill)
	}
	held := make(chan error, 1)
	go func() { // who waits is told as well
		_, err := r.Acquire(t.Context(), "k", lock.Options{})
		held <- err
	}()
	for _, err := range []error{<-held, busy(t, r)} {
		if !errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrHeld) || !mentions(err, "2 of 5 nodes count, 3 must") || !mentions(err, m.servers[4].Addr) {
			t.Errorf("with 3 nodes down: %v, want ErrDown with the count and the addresses", err)
		}
	}
	if got := m.with(t); got != 0 {
		t.Errorf("the key was left on %d nodes", got)
	}
	m.restart(t, 2, 5)
	eventually(t, "the lock is used again", func() bool { return busy(t, r) == nil })
}

// Two of five nodes that hang cost the node time-out, not the client's; of three there is no majority; and what reached a
// hanging node is taken back when it goes on.
func TestRedlockNodesThatHang(t *testing.T) {
	m := fiveMasters(t)
	var counted atomic.Int64
	r := m.redlock(t, redislock.RedlockOptions{
		Lease: time.Minute, NodeTimeout: time.Second, Counted: func(_ string, n int) { counted.Store(int64(n)) },
	})
	_ = acquire(t, r, "k").Release()
	m.each(t, 0, 2, (*stack.Server).Pause)
	for range 3 {
		began := time.Now()
		lease := acquire(t, r, "k")
		if took := time.Since(began); took > 20*time.Second { // the client's own time-out is a minute
			t.Errorf("took %v", took)
		}
		if got := counted.Load(); got != 3 {
			t.Errorf("%d nodes count, want 3", got)
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	}
	m.each(t, 2, 3, (*stack.Server).Pause)
	if err := busy(t, r); !errors.Is(err, lock.ErrDown) || !mentions(err, "did not answer in time") {
		t.Errorf("with three that hang: %v, want ErrDown", err)
	}
	m.each(t, 0, 3, (*stack.Server).Resume)
	eventually(t, "nothing is left", func() bool { return m.with(t) == 0 })
	eventually(t, "all nodes count again", func() bool { return busy(t, r) == nil && counted.Load() == 5 })
	if got := m.with(t); got != 0 {
		t.Errorf("the key was left on %d nodes", got)
	}
}

// A node that hangs for longer is not waited for by every round, and is asked again when it is back.
func TestRedlockDoesWithoutASilentNode(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	var counted atomic.Int64
	r := m.redlock(t, redislock.RedlockOptions{
		Lease: 2 * time.Second, NodeTimeout: 500 * time.Millisecond, Counted: func(_ string, n int) { counted.Store(int64(n)) },
	})
	_ = acquire(t, r, "k").Release()
	m.each(t, 0, 1, (*stack.Server).Pause)
	eventually(t, "a round is quicker than the node time-out", func() bool {
		began := time.Now()
		return busy(t, r) == nil && time.Since(began) < 250*time.Millisecond
	})
	if got := counted.Load(); got != 4 {
		t.Errorf("%d nodes count, want 4", got)
	}
	// Longer than what it has of ours lives: nothing but the probe can find out that it is back.
	time.Sleep(3 * time.Second) // the time that must pass is what is tested
	m.each(t, 0, 1, (*stack.Server).Resume)
	eventually(t, "all nodes count again", func() bool { return busy(t, r) == nil && counted.Load() == 5 })
}

// A caller that goes away in the middle of a try takes back what a minority has granted.
func TestRedlockCancelledMidWay(t *testing.T) {
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{Lease: time.Minute, NodeTimeout: time.Second})
	_ = acquire(t, r, "k").Release()
	m.each(t, 2, 5, (*stack.Server).Pause)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller went away")
	got := make(chan error, 1)
	go func() {
		_, err := r.Acquire(ctx, "k", lock.Options{})
		got <- err
	}()
	granted := func() int64 {
		return m.eyes[0].Exists(t.Context(), "redlock:{k}").Val() + m.eyes[1].Exists(t.Context(), "redlock:{k}").Val()
	}
	eventually(t, "a minority has granted", func() bool { return granted() == 2 })
	cancel(gone)
	if err := <-got; !errors.Is(err, gone) || errors.Is(err, lock.ErrDown) {
		t.Errorf("err = %v, want the cause", err)
	}
	if n := granted(); n != 0 {
		t.Errorf("the key was left on %d nodes", n)
	}
	m.each(t, 2, 5, (*stack.Server).Resume)
	eventually(t, "nothing is left", func() bool { return m.with(t) == 0 })
}

// All nodes grant, but so late that nothing of the lease is left.
func TestRedlockRefusesALateMajority(t *testing.T) {
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{Lease: time.Second, NodeTimeout: 20 * time.Second})
	_ = busy(t, r) // connects
	for _, c := range m.eyes {
		c.Do(t.Context(), "CLIENT", "PAUSE", "3000", "WRITE")
	}
	if err := busy(t, r); !errors.Is(err, lock.ErrDown) || !mentions(err, "nothing of it is left") {
		t.Errorf("err = %v, want a refusal", err)
	}
	if got := m.with(t); got != 0 {
		t.Errorf("the key was left on %d nodes", got)
	}
}

// A thousand acquisitions leave nothing on any node, and no two of them overlap.
func TestRedlockLeavesNothingBehind(t *testing.T) {
	m := fiveMasters(t)
	var all sync.WaitGroup
	var inside atomic.Int64
	for who := range 3 {
		r := m.redlock(t, redislock.RedlockOptions{MaxPause: 3 * time.Millisecond})
		all.Go(func() {
			for i := range 334 {
				lease, err := r.Acquire(t.Context(), "k", lock.Options{Owner: fmt.Sprint("app-", who)})
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Errorf("acquisition %d is not alone", i)
				}
				inside.Add(-1)
				if err := lease.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i, c := range m.eyes {
		if keys := c.Keys(t.Context(), "*").Val(); len(keys) > 0 {
			t.Errorf("left on node %d: %v", i+1, keys)
		}
	}
}

// Replies of an earlier round do not count for a later one: each has a value of its own. Three of five say yes to the first round, and that is
// heard when another has had a majority for long.
func TestRedlockLateVotesDoNotCount(t *testing.T) {
	m := fiveMasters(t)
	var proxies []*wire.Proxy
	var clients []redis.UniversalClient
	for _, s := range m.servers {
		p, c := wired(t, s)
		proxies, clients = append(proxies, p), append(clients, c)
	}
	late, err := redislock.NewRedlock(clients, redislock.RedlockOptions{
		Quarantine: -1, Lease: time.Second, NodeTimeout: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	closer(t, late)
	for busy(t, late) != nil { // connects, which may take longer than the round has
	}
	var held []*wire.Snare
	for _, p := range proxies[2:] {
		held = append(held, p.Set(wire.Trap{Match: wire.Contains("redlock:{k}"), Do: wire.HoldReply}))
	}
	got := make(chan *lock.Lease, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	taken := make(chan struct{})
	go func() {
		for ctx.Err() == nil { // a round without a majority is ErrDown
			if lease, err := late.Acquire(ctx, "k", lock.Options{}); err == nil {
				got <- lease
				return
			}
			<-taken // the next round would get the lock before the rival does
		}
	}()
	for _, s := range held {
		<-s.Sprung()
	}
	rival := insist(t, m.redlock(t, redislock.RedlockOptions{Lease: time.Minute}), "k")
	close(taken)
	for _, s := range held {
		s.Release()
	}
	select {
	case <-got:
		t.Error("two have the lock")
	case <-time.After(2 * time.Second): // many rounds
	}
	if err := rival.Release(); err != nil {
		t.Errorf("the rival's release: %v", err)
	}
	select {
	case lease := <-got:
		_ = lease.Release()
	case <-ctx.Done():
		t.Error("who was late was never served")
	}
}
