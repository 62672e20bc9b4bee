package redislock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

// keeper returns a lock that keeps its leases for an hour, and hears when another process wants one.
func keeper(t testing.TB, s *stack.Server) lock.Locker {
	t.Helper()
	l := lock.HandOver(watchdog(t, s, redislock.WatchdogOptions{}), lock.Bound{Keep: time.Hour})
	t.Cleanup(func() { _ = l.(interface{ Close() error }).Close() })
	c := client(t, s)
	eventually(t, "leases are kept", func() bool {
		give(t, l, "first")
		return holder(t, c, "first") != ""
	})
	return l
}

// give acquires and releases, and returns the fence.
func give(t testing.TB, l lock.Locker, key string) lock.Fence {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, lock.Options{Owner: "somebody"})
	if err == nil {
		err = lease.Release()
	}
	if err != nil {
		t.Fatal(err)
	}
	return lease.Fence()
}

// holder returns the value of the key in Redis; "": it is free.
func holder(t testing.TB, c redis.UniversalClient, key string) string {
	t.Helper()
	value, err := c.Get(t.Context(), "watchdog:{"+key+"}").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return value
}

// scripts returns how many scripts the server has run.
func scripts(t testing.TB, c redis.UniversalClient) string {
	t.Helper()
	info, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
	count, _, _ := strings.Cut(after, ",")
	return count
}

// Whoever comes next in this process asks nobody. Another process is given the lock although nobody releases it.
func TestAKeptLeaseIsRevoked(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	ours, theirs, c := keeper(t, s), watchdog(t, s, redislock.WatchdogOptions{}), client(t, s)
	last := give(t, ours, "k")
	before := scripts(t, c)
	for range 20 {
		fence := give(t, ours, "k")
		if fence != last+1 {
			t.Fatalf("fence %d after %d", fence, last)
		}
		last = fence
	}
	if after := scripts(t, c); after != before {
		t.Errorf("the server ran %s scripts before, and %s after", before, after)
	}
	other := give(t, theirs, "k")
	if other <= last {
		t.Errorf("fence %d after %d", other, last)
	}
	if again := give(t, ours, "k"); again <= other {
		t.Errorf("fence %d after %d", again, other)
	}
}

// A process that does not wait is refused, and the next one is not.
func TestAKeptLeaseIsRevokedByTryOnce(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	ours, theirs := keeper(t, s), watchdog(t, s, redislock.WatchdogOptions{})
	give(t, ours, "k")
	_, err := theirs.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
	if !errors.Is(err, lock.ErrHeld) {
		t.Errorf("the first try: %v", err)
	}
	eventually(t, "a later try succeeds", func() bool {
		lease, err := theirs.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
		if err == nil {
			_ = lease.Release()
		}
		return err == nil
	})
}

// An operator evicts the keeper: its next caller has a new lease.
func TestAKeptLeaseIsEvicted(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	ours, theirs := keeper(t, s), watchdog(t, s, redislock.WatchdogOptions{})
	give(t, ours, "k")
	limit, err := lock.Evict(t.Context(), theirs, "k")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the keeper has another lease", func() bool { return give(t, ours, "k") > limit })
}

// Who cannot be told that another process wants the lock gives it back.
func TestAKeeperThatHearsNothing(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	ours, c := keeper(t, s), client(t, s)
	give(t, ours, "k")
	if holder(t, c, "k") == "" {
		t.Fatal("the lease is not kept")
	}
	if err := c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lock is free", func() bool { return holder(t, c, "k") == "" })
	eventually(t, "the keeper hears again", func() bool {
		give(t, ours, "k")
		return holder(t, c, "k") != ""
	})
}

// A process that was never told that it hears gives back every lease.
func TestAKeeperThatMayNotHear(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	c := client(t, s)
	err := c.Do(t.Context(), "ACL", "SETUSER", "deaf", "on", "nopass", "~*", "+@all", "resetchannels").Err()
	if err != nil {
		t.Fatal(err)
	}
	deaf := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "deaf", Password: "any", Protocol: 2})
	t.Cleanup(func() { _ = deaf.Close() })
	w := closer(t, redislock.NewWatchdog(deaf, redislock.WatchdogOptions{}))
	l := lock.HandOver(w, lock.Bound{Keep: time.Hour})
	for range 3 {
		give(t, l, "k")
		if holder(t, c, "k") != "" {
			t.Fatal("the lease is kept")
		}
	}
}

// While others wait no lease is kept: each process hands the lock on when its own callers are done.
func TestNoLeaseIsKeptWhileOthersWait(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	c := client(t, s)
	var keepers []lock.Locker
	for range 3 {
		keepers = append(keepers, keeper(t, s))
		for _, l := range keepers { // all of them have a subscription, and nobody has the key of keeper
			give(t, l, "first")
		}
	}
	first := acquire(t, keepers[0], "k")
	second := acquireLater(t, keepers[1], "k")
	awaitQueue(t, c, 1)
	third := acquireLater(t, keepers[2], "k")
	awaitQueue(t, c, 2)
	_ = first.Release()
	was := holder(t, c, "k")
	_ = (<-second).Release()
	if is := holder(t, c, "k"); is == was || is == "" {
		t.Errorf("the second holder %q has released, and %q has the lock", was, is)
	}
	_ = (<-third).Release()
	if holder(t, c, "k") == "" {
		t.Error("nobody waits, and the lease is not kept")
	}
}

func BenchmarkKept(b *testing.B) {
	l := keeper(b, stacktest.Redis(b))
	for b.Loop() {
		give(b, l, "k")
	}
}

func BenchmarkKeptDo(b *testing.B) {
	l := keeper(b, stacktest.Redis(b))
	ctx := b.Context()
	for b.Loop() {
		err := lock.Do(ctx, l, "k", lock.Options{}, func(context.Context, lock.Fence) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
	}
}
