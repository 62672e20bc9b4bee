package redislock_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

// failover is how long a fail-over may take on a busy computer: see stack.Sentinels.AwaitMaster.
const failover = 2 * time.Minute

func sentinels(t *testing.T) *stack.Sentinels {
	t.Helper()
	o := stack.SentinelOptions{DownAfter: 4 * time.Second} // a stall is no outage
	x, err := stacktest.Start(t, stack.Options{}).StartSentinels(t.Context(), o)
	stacktest.Started(t, err)
	return x
}

// failoverClient returns a client as the service makes it.
func failoverClient(t testing.TB, x *stack.Sentinels) redis.UniversalClient {
	return closer(t, redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: x.Addrs(), MasterName: x.Name, ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 32,
		DialTimeout: 2 * time.Second, DialerRetries: 1, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
	}))
}

func onSentinels(t testing.TB, x *stack.Sentinels, o redislock.WatchdogOptions) *redislock.Watchdog {
	return closer(t, redislock.NewWatchdog(failoverClient(t, x), o))
}

// replaceMaster kills the master and returns when there is another.
func replaceMaster(t *testing.T, x *stack.Sentinels) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failover)
	defer cancel()
	old, err := x.Master(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := x.AwaitMaster(ctx, old); err != nil {
		t.Fatal(err)
	}
}

// acquireEventually acquires as soon as the lock is served, such as by a new master.
func acquireEventually(t *testing.T, l lock.Locker, key string) *lock.Lease {
	t.Helper()
	var lease *lock.Lease
	eventually(t, "the lock is served again", func() bool {
		var err error
		lease, err = l.Acquire(t.Context(), key, lock.Options{TryOnce: true})
		return err == nil
	})
	t.Cleanup(func() { _ = lease.Release() })
	return lease
}

func sever(t *testing.T, x *stack.Sentinels) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failover)
	defer cancel()
	if err := x.Sever(ctx); err != nil {
		t.Fatal(err)
	}
}

// A replica that has not heard of the lock is promoted: two hold it, and the first does not know. Only the fence
// tells them apart. A holder whose lease is short enough to be renewed meanwhile is told that it is lost.
func TestAFailOverThatLosesTheLock(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	x := sentinels(t)
	// Renewed for the first time long after this test has ended.
	patient := onSentinels(t, x, redislock.WatchdogOptions{Lease: time.Hour, MaxHold: time.Hour})
	brisk := onSentinels(t, x, redislock.WatchdogOptions{Lease: 6 * time.Second})
	sever(t, x)
	first, other := acquire(t, patient, "k"), acquire(t, brisk, "brisk")
	replaceMaster(t, x)

	second := acquireEventually(t, onSentinels(t, x, redislock.WatchdogOptions{}), "k")
	if first.Err() != nil {
		t.Errorf("the first holder was told: %v; this test wants to show that it is not", first.Err())
	}
	if second.Err() != nil || second.Fence() <= first.Fence() {
		t.Errorf(
			"the second holder: %v, fence %d after %d; want a larger one", second.Err(), second.Fence(),
			first.Fence(),
		)
	}
	select {
	case <-other.Done():
		if !errors.Is(other.Err(), lock.ErrLost) {
			t.Errorf("the holder who renews was told %v, want ErrLost", other.Err())
		}
	case <-time.After(failover):
		t.Error("the holder who renews was not told")
	}
	acquireEventually(t, brisk, "brisk")
}

// With acknowledgements nobody gets a lock that no replica knows, and a lock that one knows outlives its master,
// with its queue.
func TestAFailOverAfterAnAcknowledgement(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	x := sentinels(t)
	o := redislock.WatchdogOptions{
		Replicas: redislock.Replicas(1, 2*time.Second),
		Lease:    10 * time.Minute,
		MaxHold:  time.Hour,
	}
	holder := onSentinels(t, x, o)
	held := acquireEventually(t, holder, "k") // acquireEventually: a busy replica may be late
	replaceMaster(t, x)

	// The new master has no replica: no lock is granted, but the old one is there.
	state := lock.State{}
	eventually(t, "the new master is asked", func() bool {
		var err error
		state, err = lock.Inspect(t.Context(), holder, "k")
		return err == nil
	})
	if held.Err() != nil || state.Holder == nil || state.Holder.Fence != held.Fence() {
		t.Errorf("held: %v, and on the new master by %+v; want fence %d", held.Err(), state.Holder, held.Fence())
	}
	eventually(
		t, "another is refused",
		func() bool { return errors.Is(try(t, onSentinels(t, x, redislock.WatchdogOptions{})), lock.ErrHeld) },
	)
	if err := tryKey(t, holder, "other"); !errors.Is(err, lock.ErrDown) ||
		!mentions(err, "too-few-acknowledged (n=0, asked=1") {
		t.Errorf("without a replica: %v, want ErrDown and how many acknowledged", err)
	}
	if err := held.Release(); err != nil {
		t.Errorf("release: %v", err)
	}
	// It gets another replica, and locks are granted again.
	host, port, _ := net.SplitHostPort(x.Redis[1].Addr)
	if err := client(t, stacktest.Redis(t)).Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a lock is granted", func() bool { return tryKey(t, holder, "other") == nil })
}

// Waiters of all processes are served through a fail-over: none is stuck, whatever was lost.
func TestWaitersOutliveAFailOver(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	x := sentinels(t)
	held := acquire(t, onSentinels(t, x, redislock.WatchdogOptions{}), "k")
	var all sync.WaitGroup
	for range 2 {
		w := onSentinels(t, x, redislock.WatchdogOptions{})
		for range 3 {
			all.Go(func() {
				deadline := time.Now().Add(failover)
				for ; ; time.Sleep(20 * time.Millisecond) { // only a polling interval
					ctx, cancel := context.WithDeadline(t.Context(), deadline)
					lease, err := w.Acquire(ctx, "k", lock.Options{})
					cancel()
					if err == nil {
						_ = lease.Release()
						return
					}
					if !errors.Is(err, lock.ErrDown) || time.Now().After(deadline) {
						t.Errorf("a waiter: %v", err)
						return
					}
				}
			})
		}
	}
	replaceMaster(t, x)
	_ = held.Release()
	all.Wait()
}
