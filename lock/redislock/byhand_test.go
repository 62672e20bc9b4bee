package redislock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack/stacktest"
)

// byHand are the locks that people write by hand: name, round trips of acquire and release, and how to open one.
var byHand = []struct {
	name             string
	acquire, release int64
	open             func(t testing.TB, c redis.UniversalClient, o redislock.SetNXOptions) lock.Locker
}{
	{"setnx-expire", 2, 1, func(t testing.TB, c redis.UniversalClient, o redislock.SetNXOptions) lock.Locker {
		return closer(t, redislock.NewSetNXExpire(c, redislock.SetNXExpireOptions{SetNXOptions: o}))
	}},
	{"setnx-del", 1, 1, func(t testing.TB, c redis.UniversalClient, o redislock.SetNXOptions) lock.Locker {
		return closer(t, redislock.NewSetNXDel(c, o))
	}},
	{"setnx-watch", 1, 3, func(t testing.TB, c redis.UniversalClient, o redislock.SetNXOptions) lock.Locker {
		return closer(t, redislock.NewSetNXWatch(c, o))
	}},
}

func TestLocksByHandConform(t *testing.T) {
	s := servers.Redis(t)
	for _, kind := range byHand {
		t.Run(kind.name, func(t *testing.T) {
			conform(t, byHandPromise(),
				func(t testing.TB) lock.Locker { return kind.open(t, client(t, s), redislock.SetNXOptions{}) })
		})
	}
}

// trips counts the requests that a client waits for.
type trips struct{ n atomic.Int64 }

func (c *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.n.Add(1); return next(ctx, cmd) }
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.n.Add(1); return next(ctx, cmds) }
}

func TestRoundTripsOfLocksByHand(t *testing.T) {
	s := servers.Redis(t)
	for _, kind := range byHand {
		t.Run(kind.name, func(t *testing.T) {
			c := client(t, s)
			l := kind.open(t, c, redislock.SetNXOptions{})
			key := locktest.FreshKey()
			if err := acquire(t, l, key).Release(); err != nil { // connects and loads the scripts
				t.Fatal(err)
			}
			count := new(trips)
			c.AddHook(count)
			lease := acquire(t, l, key)
			if got := count.n.Swap(0); got != kind.acquire {
				t.Errorf("an acquisition took %d round trips, want %d", got, kind.acquire)
			}
			if _, err := l.Acquire(t.Context(), key, lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
				t.Error(err)
			}
			if got := count.n.Swap(0); got != 1 {
				t.Errorf("a try in vain took %d round trips, want 1", got)
			}
			if err := lease.Release(); err != nil {
				t.Error(err)
			}
			if got := count.n.Load(); got != kind.release {
				t.Errorf("a release took %d round trips, want %d", got, kind.release)
			}
		})
	}
}

// A holds for longer than its lease, B follows, A releases. Only where the release compares may C not enter beside B.
func TestALateReleaseFreesWhatIsNotItsOwn(t *testing.T) {
	s := servers.Redis(t)
	for _, kind := range byHand {
		t.Run(kind.name, func(t *testing.T) {
			key, c := locktest.FreshKey(), client(t, s)
			a := acquire(t, kind.open(t, c, redislock.SetNXOptions{Lease: time.Second}), key)
			if err := awaitLoss(t, a); !errors.Is(err, lock.ErrExpired) {
				t.Fatalf("A's lease: %v, want ErrExpired", err)
			}
			other := kind.open(t, c, redislock.SetNXOptions{})
			b := acquire(t, other, key)
			if err := a.Release(); !errors.Is(err, lock.ErrLost) {
				t.Errorf("A's release: %v, want ErrLost", err)
			}
			third, err := other.Acquire(t.Context(), key, lock.Options{TryOnce: true})
			if err == nil {
				defer func() { _ = third.Release() }()
			}
			if robbed := err == nil; robbed != (kind.name == "setnx-del") {
				t.Errorf("C entered beside B: %v (err = %v)", robbed, err)
			}
			if b.Err() != nil {
				t.Errorf("B was told, by nothing that could know: %v", b.Err())
			}
		})
	}
}

func TestLocksByHandNameTheHolder(t *testing.T) {
	s := servers.Redis(t)
	for _, kind := range byHand {
		t.Run(kind.name, func(t *testing.T) {
			l, key := kind.open(t, client(t, s), redislock.SetNXOptions{}), locktest.FreshKey()
			lease, err := l.Acquire(t.Context(), key, lock.Options{Owner: "app-1/request-7"})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = lease.Release() }()
			if lease.Fence() != lock.NoFence {
				t.Errorf("fence %d, from a lock that has none", lease.Fence())
			}
			_, err = l.Acquire(t.Context(), key, lock.Options{TryOnce: true})
			var held *lock.HeldError
			if !errors.As(err, &held) || held.Holder != "app-1/request-7" || held.Remaining <= 0 || held.Remaining > 10*time.Second {
				t.Errorf("err = %+v, want the holder and what remains", err)
			}
		})
	}
}

// A server that is gone is said to be down soon, also to those who wait, and is used again when it is back.
func TestLocksByHandWhenTheServerIsGone(t *testing.T) {
	for _, kind := range byHand {
		t.Run(kind.name, func(t *testing.T) {
			s := stacktest.Redis(t)
			l := kind.open(t, client(t, s), redislock.SetNXOptions{})
			held := acquire(t, l, "k")
			waited := make(chan error, 1)
			go func() {
				_, err := l.Acquire(t.Context(), "k", lock.Options{})
				waited <- err
			}()
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := <-waited; !errors.Is(err, lock.ErrDown) {
				t.Errorf("a waiter got %v, want ErrDown", err)
			}
			if err := held.Release(); !errors.Is(err, lock.ErrDown) {
				t.Errorf("release: %v, want ErrDown", err)
			}
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			_ = acquire(t, l, "k").Release()
		})
	}
}

// A key of another type, and a server that refuses to write, are named.
func TestLocksByHandNameTheFix(t *testing.T) {
	for _, kind := range byHand {
		t.Run(kind.name, func(t *testing.T) {
			s := stacktest.Redis(t)
			c := client(t, s)
			l, ctx, once := kind.open(t, c, redislock.SetNXOptions{}), t.Context(), lock.Options{TryOnce: true}
			c.RPush(ctx, kind.name+":{list}", "x")
			if _, err := l.Acquire(ctx, "list", once); !mentions(err, kind.name+":{list}") || errors.Is(err, lock.ErrHeld) {
				t.Errorf("a key of another type: %v, want an error that names it", err)
			}
			c.ConfigSet(ctx, "maxmemory", "1")
			if _, err := l.Acquire(ctx, "k", once); !errors.Is(err, lock.ErrDown) || !mentions(err, "memory") {
				t.Errorf("out of memory: %v, want ErrDown and the reason", err)
			}
			c.Do(ctx, "REPLICAOF", "127.0.0.1", "1")
			if _, err := l.Acquire(ctx, "k", once); !errors.Is(err, lock.ErrDown) || !mentions(err, "replica") {
				t.Errorf("a read-only replica: %v, want ErrDown and the reason", err)
			}
		})
	}
}
