package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
)

var servers stacktest.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Around(m)) }

func client(t testing.TB, s *stack.Server) redis.UniversalClient {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: s.Addr, ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 32,
		DialTimeout: 500 * time.Millisecond, DialerRetries: 1, ReadTimeout: time.Second, WriteTimeout: time.Second,
	})
	t.Cleanup(func() { c.Close() })
	return c
}

func setnx(t testing.TB, s *stack.Server, lease time.Duration) *redislock.SetNX {
	l := redislock.NewSetNX(client(t, s), redislock.SetNXOptions{Lease: lease})
	t.Cleanup(func() { l.Close() })
	return l
}

func watchdog(t testing.TB, s *stack.Server, o redislock.WatchdogOptions) *redislock.Watchdog {
	w := redislock.NewWatchdog(client(t, s), o)
	t.Cleanup(func() { w.Close() })
	return w
}

func TestSetNXConforms(t *testing.T) {
	s := servers.Redis(t)
	locktest.Run(t, lock.Promise{Exclusive: true, Scope: lock.Cluster, Fenced: true, Blocking: true},
		func(t testing.TB) lock.Locker { return setnx(t, s, 0) })
}

func TestWatchdogConforms(t *testing.T) {
	s := servers.Redis(t)
	locktest.Run(t, lock.Promise{Exclusive: true, Scope: lock.Cluster, Fenced: true, Blocking: true, Fair: true},
		func(t testing.TB) lock.Locker { return watchdog(t, s, redislock.WatchdogOptions{}) })
}

// Handed over inside each process it keeps the same promises, but is first come, first served only within a process.
func TestWatchdogHandedOverConforms(t *testing.T) {
	s := servers.Redis(t)
	locktest.Run(t, lock.Promise{Exclusive: true, Scope: lock.Cluster, Fenced: true, Blocking: true},
		func(t testing.TB) lock.Locker {
			return lock.HandOver(watchdog(t, s, redislock.WatchdogOptions{}), lock.Bound{})
		})
}

// both runs a test for each lock with a lease of its own; name begins its keys.
func both(t *testing.T, lease time.Duration, test func(t *testing.T, s *stack.Server, c redis.UniversalClient, l lock.Locker, name string)) {
	for name, open := range map[string]func(testing.TB, *stack.Server) lock.Locker{
		"setnx": func(t testing.TB, s *stack.Server) lock.Locker { return setnx(t, s, lease) },
		"watchdog": func(t testing.TB, s *stack.Server) lock.Locker {
			return watchdog(t, s, redislock.WatchdogOptions{Lease: lease})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := stacktest.Redis(t)
			test(t, s, client(t, s), open(t, s), map[string]string{"setnx": "lock", "watchdog": "watchdog"}[name])
		})
	}
}

func acquire(t *testing.T, l lock.Locker, key string) *lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := l.Acquire(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release() })
	return lease
}

// awaitLoss returns when the lease has ended, and whether its key was already given away on the server.
func awaitLoss(t *testing.T, lease *lock.Lease) error {
	t.Helper()
	select {
	case <-lease.Done():
		return lease.Err()
	case <-time.After(20 * time.Second):
		t.Fatal("no loss was signalled")
		return nil
	}
}

// SETNX and the watchdog differ by renewal alone: with work longer than the lease one is lost and the other is not.
func TestRenewal(t *testing.T) {
	const lease = 3 * time.Second // leaves the holder 32 ms: a busy computer runs timers late
	both(t, lease, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		held := acquire(t, l, "k")
		select {
		case <-held.Done():
			if strings.Contains(t.Name(), "watchdog") {
				t.Errorf("the watchdog's lease was lost: %v", held.Err())
			}
			if !errors.Is(held.Err(), lock.ErrExpired) {
				t.Errorf("err = %v, want ErrExpired", held.Err())
			}
			if c.Exists(t.Context(), name+":{k}").Val() != 1 {
				t.Error("the holder learnt of the loss only after the server had freed the key")
			}
		case <-time.After(3 * lease):
			if strings.Contains(t.Name(), "setnx") {
				t.Error("no loss was signalled for a lease that was not renewed")
			}
			if ttl := c.PTTL(t.Context(), name+":{k}").Val(); ttl <= 0 || ttl > lease {
				t.Errorf("PTTL = %v after three leases", ttl)
			}
		}
	})
}

func TestMaximumHold(t *testing.T) {
	s := stacktest.Redis(t)
	w := watchdog(t, s, redislock.WatchdogOptions{Lease: 300 * time.Millisecond, MaxHold: time.Second})
	if err := awaitLoss(t, acquire(t, w, "k")); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("err = %v, want ErrExpired", err)
	}
	acquire(t, watchdog(t, s, redislock.WatchdogOptions{}), "k") // the hung holder does not keep it
}

// Whoever deletes or takes the key under a watchdog is noticed at the next renewal.
func TestTheWatchdogNotices(t *testing.T) {
	for name, row := range map[string]struct {
		harm func(context.Context, redis.UniversalClient)
		want error
	}{
		"the key is gone (FLUSHALL, eviction)": {func(ctx context.Context, c redis.UniversalClient) { c.FlushAll(ctx) }, lock.ErrExpired},
		"another took it":                      {func(ctx context.Context, c redis.UniversalClient) { c.Set(ctx, "watchdog:{k}", "other", 0) }, lock.ErrTaken},
	} {
		t.Run(name, func(t *testing.T) {
			s := stacktest.Redis(t)
			c := client(t, s)
			lease := acquire(t, watchdog(t, s, redislock.WatchdogOptions{Lease: 600 * time.Millisecond}), "k")
			row.harm(t.Context(), c)
			if err := awaitLoss(t, lease); !errors.Is(err, lock.ErrLost) || !errors.Is(err, row.want) {
				t.Errorf("err = %v, want ErrLost and %v", err, row.want)
			}
			before := c.Get(t.Context(), "watchdog:{k}").Val()
			_ = lease.Release()
			if after := c.Get(t.Context(), "watchdog:{k}").Val(); after != before {
				t.Errorf("the release changed a key that was not its own: %q to %q", before, after)
			}
		})
	}
}

// A fence grows over the loss of all data: it is seeded by the clock.
func TestFencesGrowAcrossAnEmptyRestart(t *testing.T) {
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		first := acquire(t, l, "k")
		c.FlushAll(t.Context())
		second := acquire(t, l, "k")
		if second.Fence() <= first.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), first.Fence())
		}
	})
}

func TestFencesGrowWhenTheClockIsBehind(t *testing.T) {
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		const ahead = 4_000_000_000_000_000 // as if the clock had been set back by decades
		c.Set(t.Context(), name+":{k}:fence", ahead, 0)
		step := lock.Fence(1)
		if spanned, ok := l.(lock.Spanned); ok {
			step = lock.Fence(spanned.Span())
		}
		for i := range lock.Fence(3) {
			lease := acquire(t, l, "k")
			if want := ahead + (i+1)*step; lease.Fence() != want {
				t.Errorf("fence = %d, want %d", lease.Fence(), want)
			}
			_ = lease.Release()
		}
	})
}

func TestTheHolderIsNamed(t *testing.T) {
	both(t, 0, func(t *testing.T, _ *stack.Server, _ redis.UniversalClient, l lock.Locker, name string) {
		lease, err := l.Acquire(lock.WithOwner(t.Context(), "app-1/request-7"), "k")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lease.Release() }()
		_, err = l.Acquire(lock.NoWait(t.Context()), "k")
		var held *lock.HeldError
		if !errors.As(err, &held) || held.Holder != "app-1/request-7" || held.Remaining <= 0 {
			t.Errorf("err = %+v, want the holder and what remains", err)
		}
	})
}

func TestAnswersThatAreNoAnswers(t *testing.T) {
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		ctx := lock.NoWait(t.Context())
		c.RPush(ctx, name+":{list}", "x")
		if _, err := l.Acquire(ctx, "list"); err == nil || !strings.Contains(err.Error(), name+":{list}") {
			t.Errorf("a key of another type: %v, want an error that names it", err)
		}
		c.ConfigSet(ctx, "maxmemory", "1")
		if _, err := l.Acquire(ctx, "k"); !errors.Is(err, lock.ErrDown) || !strings.Contains(err.Error(), "memory") {
			t.Errorf("out of memory: %v, want ErrDown and the reason", err)
		}
		c.ConfigSet(ctx, "maxmemory", "0")
		c.ScriptFlush(ctx)
		lease, err := l.Acquire(ctx, "k")
		if err != nil {
			t.Fatalf("after SCRIPT FLUSH: %v", err)
		}
		c.ScriptFlush(ctx)
		if err := lease.Release(); err != nil {
			t.Errorf("release after SCRIPT FLUSH: %v", err)
		}
		c.Do(ctx, "REPLICAOF", "127.0.0.1", "1")
		if _, err := l.Acquire(ctx, "k"); !errors.Is(err, lock.ErrDown) || !strings.Contains(err.Error(), "replica") {
			t.Errorf("a read-only replica: %v, want ErrDown and the reason", err)
		}
	})
}

// A server that is gone is said to be down soon, also to those who wait, and is used again when it is back.
func TestServerGoneAndBack(t *testing.T) {
	both(t, 2*time.Second, func(t *testing.T, s *stack.Server, _ redis.UniversalClient, l lock.Locker, name string) {
		acquire(t, l, "k")
		waited := make(chan error, 1)
		go func() {
			lease, err := l.Acquire(t.Context(), "k")
			if err == nil {
				_ = lease.Release()
			}
			waited <- err
		}()
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-waited:
			if !errors.Is(err, lock.ErrDown) {
				t.Errorf("a waiter got %v, want ErrDown", err)
			}
		case <-time.After(5 * time.Second):
			t.Error("a waiter was not told that the server is gone")
		}
		if _, err := l.Acquire(lock.NoWait(t.Context()), "k"); !errors.Is(err, lock.ErrDown) {
			t.Errorf("err = %v, want ErrDown", err)
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = acquire(t, l, "k").Release()
	})
}

// A Redis that is killed with a lock held and comes back with its data still has the key. The release that could not reach it
// is made up for, so that nobody waits for a lease of a minute to run out.
func TestAReleaseThatFailedIsMadeUpFor(t *testing.T) {
	s, err := stack.Start(t.Context(), stack.Options{Want: []stack.Kind{stack.Redis}, AOF: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	server := s.Server("redis")
	if server == nil || server.StandIn != "" {
		t.Skip("needs a real redis-server")
	}
	c := client(t, server)
	w := watchdog(t, server, redislock.WatchdogOptions{Lease: time.Minute})
	lease := acquire(t, w, "k")
	c.ConfigSet(t.Context(), "appendfsync", "always")
	c.Set(t.Context(), "flush", "", 0) // forces what came before to disk
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(); !errors.Is(err, lock.ErrDown) {
		t.Errorf("release: %v, want ErrDown", err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	next, err := w.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
	_ = next.Release()
}

// A release wakes a waiter at once: ten hand-overs take far less than the second after which a waiter asks by itself.
func TestWaitersAreWokenNotPolled(t *testing.T) {
	s := stacktest.Redis(t)
	a, b := watchdog(t, s, redislock.WatchdogOptions{}), watchdog(t, s, redislock.WatchdogOptions{})
	c := client(t, s)
	lease := acquire(t, a, "k")
	for i := range 10 {
		next := []*redislock.Watchdog{b, a}[i%2]
		got := make(chan *lock.Lease, 1)
		go func() {
			l, err := next.Acquire(t.Context(), "k")
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		awaitQueue(t, c, 1)
		began := time.Now()
		_ = lease.Release()
		lease = <-got
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("hand-over %d took %v: the waiter was not woken", i, took)
		}
	}
	_ = lease.Release()
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
		next, err := w.Acquire(t.Context(), "k")
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	awaitQueue(t, c, 3)
	_ = lease.Release()
	next := <-got
	if took := time.Since(began); took > 10*time.Second {
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
		next, err := b.Acquire(t.Context(), "k")
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
	case <-time.After(10 * time.Second):
		t.Fatal("the waiter was not served")
	}
}

func awaitQueue(t *testing.T, c redis.UniversalClient, n int64) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if c.LLen(t.Context(), "watchdog:{k}:queue").Val() == n {
			return
		}
	}
	t.Fatalf("the queue is not %d long", n)
}

// Thousands of acquisitions leave no key but the fence, and of waiters no subscription grows without end.
func TestNothingIsLeftBehind(t *testing.T) {
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for i := range 250 {
					key := fmt.Sprint("k", (worker+i)%5)
					lease, err := l.Acquire(t.Context(), key)
					if err != nil {
						t.Error(err)
						return
					}
					if err := lease.Release(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for _, key := range c.Keys(t.Context(), "*").Val() {
			if !strings.HasSuffix(key, ":fence") {
				t.Errorf("left behind: %s", key)
			}
			if c.TTL(t.Context(), key).Val() <= 0 {
				t.Errorf("%s lives for ever", key)
			}
		}
	})
}
