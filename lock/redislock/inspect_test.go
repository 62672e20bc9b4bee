package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
)

func inspect(t *testing.T, l lock.Locker, key string) lock.State {
	t.Helper()
	s, err := lock.Inspect(t.Context(), l, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestInspectTellsTheHolder(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second
	both(t, lease, func(t *testing.T, _ *stack.Server, _ redis.UniversalClient, l lock.Locker, _ string) {
		if s := inspect(t, l, "k"); s.Holder != nil || s.Waiters != nil || s.Scope != lock.Cluster {
			t.Errorf("a free key: %+v", s)
		}
		asked := time.Now()
		held, err := l.Acquire(t.Context(), "k", lock.Options{Owner: "app-1/r 1"})
		if err != nil {
			t.Fatal(err)
		}
		s := inspect(t, l, "k")
		if s.Holder == nil {
			t.Fatal("no holder")
		}
		h := *s.Holder
		if h.Who != "app-1/r 1" || h.Fence != held.Fence() || h.Remaining <= 0 || h.Remaining > lease {
			t.Errorf("%+v, want app-1/r 1, fence %d, at most %v", h, held.Fence(), lease)
		}
		if h.Since.Before(asked.Add(-100*time.Millisecond)) || h.Since.After(time.Now()) {
			t.Errorf("since %v, but it was asked for at %v", h.Since, asked)
		}
		_ = held.Release()
		if s := inspect(t, l, "k"); s.Holder != nil {
			t.Errorf("after the release: %+v", s.Holder)
		}
	})
}

// The waiters of a watchdog are listed in the order in which they are then served, and one that has died is not
// listed.
func TestInspectTellsTheWaitersInOrder(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	c := client(t, s)
	one, two := watchdog(t, s, redislock.WatchdogOptions{}), watchdog(t, s, redislock.WatchdogOptions{})
	held := acquire(t, one, "k")
	// Like a waiter that was killed: it last asked an hour ago.
	if err := c.RPush(t.Context(), "watchdog:{k}:queue", "dead:1 app-9/dead").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.HSet(t.Context(), "watchdog:{k}:seen", "dead:1 app-9/dead", time.Now().Add(-time.Hour).UnixMilli()).
		Err(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var served []string
	var all sync.WaitGroup
	names := func() (list []string) {
		for _, w := range inspect(t, two, "k").Waiters {
			list = append(list, w.Who)
		}
		return list
	}
	for i, l := range []lock.Locker{one, two, two, one} {
		who := fmt.Sprint("app/", i)
		all.Go(func() {
			lease, err := l.Acquire(t.Context(), "k", lock.Options{Owner: who})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			served = append(served, who)
			mu.Unlock()
			_ = lease.Release()
		})
		eventually(t, who+" queues up", func() bool { return slices.Contains(names(), who) })
	}
	foreseen := names()
	if len(foreseen) != 4 {
		t.Errorf("waiters %v, want the four that live", foreseen)
	}
	_ = held.Release()
	all.Wait()
	if !slices.Equal(foreseen, served) {
		t.Errorf("foreseen %v, served %v", foreseen, served)
	}
}

func TestKeysListsWhatIsHeld(t *testing.T) {
	t.Parallel()
	both(t, 0, func(t *testing.T, _ *stack.Server, _ redis.UniversalClient, l lock.Locker, _ string) {
		want := []string{"a:fence", "b{c}%7B", "日本", "}{"}
		for _, key := range want {
			acquire(t, l, key)
		}
		gone := acquire(t, l, "gone")
		_ = gone.Release()
		keys, err := l.(lock.Lister).Keys(t.Context())
		slices.Sort(keys)
		slices.Sort(want)
		if err != nil || !slices.Equal(keys, want) {
			t.Errorf("keys %q, %v; want %q", keys, err, want)
		}
	})
}

func TestInspectSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	both(t, 0, func(t *testing.T, s *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		if err := c.LPush(t.Context(), name+":{k}", "x").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := lock.Inspect(t.Context(), l, "k"); err == nil || !strings.Contains(err.Error(), "is no lock") {
			t.Errorf("a foreign key: %v", err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		_, inspected := lock.Inspect(t.Context(), l, "k")
		_, evicted := lock.Evict(t.Context(), l, "k")
		_, listed := l.(lock.Lister).Keys(t.Context())
		for what, err := range map[string]error{"Inspect": inspected, "Evict": evicted, "Keys": listed} {
			if !errors.Is(err, lock.ErrDown) {
				t.Errorf("%s without a server: %v", what, err)
			}
		}
	})
}

// The locks without a fence name their holder, too, and cannot be taken away.
func TestInspectLocksWithoutAFence(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	del := redislock.NewSetNXDel(client(t, s), redislock.SetNXOptions{Lease: time.Minute})
	t.Cleanup(func() { del.Close() })
	key := t.Name()
	held, err := del.Acquire(t.Context(), key, lock.Options{Owner: "app-1/r"})
	if err != nil {
		t.Fatal(err)
	}
	h := inspect(t, del, key).Holder
	if h == nil || h.Who != "app-1/r" || h.Remaining <= 0 || h.Remaining > time.Minute || h.Fence != lock.NoFence ||
		!h.Since.IsZero() {
		t.Errorf("holder %+v", h)
	}
	if keys, err := del.Keys(t.Context()); err != nil || !slices.Contains(keys, key) {
		t.Errorf("keys %q, %v", keys, err)
	}
	if err := client(t, s).Persist(t.Context(), "setnx-del:{"+key+"}").Err(); err != nil {
		t.Fatal(err)
	}
	if h := inspect(t, del, key).Holder; h == nil || h.Remaining != lock.Forever {
		t.Errorf("a key without a time limit: %+v", h)
	}
	if _, err := lock.Evict(t.Context(), del, key); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("evict: %v", err)
	}
	_ = held.Release()
}

// After an eviction the next one is in at once. Its fence is larger than that of the eviction, which is larger than
// that of the evicted holder.
func TestEvict(t *testing.T) {
	t.Parallel()
	both(t, 15*time.Second, func(t *testing.T, _ *stack.Server, _ redis.UniversalClient, l lock.Locker, name string) {
		evicted := acquire(t, l, "k")
		next := make(chan *lock.Lease, 1)
		go func() {
			defer close(next)
			ctx, cancel := context.WithTimeout(
				t.Context(), 10*time.Second,
			) // less than the lease: it did not just run out
			defer cancel()
			lease, err := l.Acquire(ctx, "k", lock.Options{Owner: "app-2/next"})
			if err != nil {
				t.Error(err)
				return
			}
			next <- lease
		}()
		if name == "watchdog" {
			eventually(t, "the next one queues up", func() bool { return len(inspect(t, l, "k").Waiters) == 1 })
		}
		fence, err := lock.Evict(t.Context(), l, "k")
		if err != nil {
			t.Fatal(err)
		}
		if h := inspect(t, l, "k").Holder; name == "watchdog" && (h == nil || h.Who != "app-2/next") {
			t.Errorf("right after the eviction the holder is %+v; want it granted in the same step", h)
		}
		lease, ok := <-next
		if !ok {
			t.FailNow()
		}
		if evicted.Fence() >= fence || fence >= lease.Fence() {
			t.Errorf("evicted %d, fence %d, next %d: they must grow", evicted.Fence(), fence, lease.Fence())
		}
		if h := inspect(t, l, "k").Holder; h == nil || h.Who != "app-2/next" {
			t.Errorf("holder %+v, want the next one", h)
		}
		if name == "watchdog" {
			if loss := awaitLoss(t, evicted); !errors.Is(loss, lock.ErrLost) || !errors.Is(loss, lock.ErrTaken) {
				t.Errorf("at its renewal the evicted one was told %v, want ErrLost and ErrTaken", loss)
			}
		}
		if err := evicted.Release(); !errors.Is(err, lock.ErrTaken) {
			t.Errorf("release of the evicted one: %v, want ErrTaken", err)
		}
		if lease.Err() != nil {
			t.Errorf("the release of the evicted one took the next one's: %v", lease.Err())
		}
		_ = lease.Release()
	})
}

// A free key can be evicted, too: it keeps a holder from writing whose lease ran out while it was paused.
func TestEvictFromAFreeKey(t *testing.T) {
	t.Parallel()
	both(t, 0, func(t *testing.T, _ *stack.Server, _ redis.UniversalClient, l lock.Locker, _ string) {
		before := acquire(t, l, "k")
		_ = before.Release()
		fence, err := lock.Evict(t.Context(), l, "k")
		if err != nil {
			t.Fatal(err)
		}
		after := acquire(t, l, "k")
		if before.Fence() >= fence || fence >= after.Fence() {
			t.Errorf("before %d, fence %d, after %d: they must grow", before.Fence(), fence, after.Fence())
		}
	})
}

// An operator can evict also where Redis has no memory left.
func TestEvictFromAFullRedis(t *testing.T) {
	t.Parallel()
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, _ string) {
		evicted := acquire(t, l, "k")
		if err := c.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
			t.Fatal(err)
		}
		if fence, err := lock.Evict(t.Context(), l, "k"); err != nil || fence <= evicted.Fence() {
			t.Errorf("fence %d after %d, %v", fence, evicted.Fence(), err)
		}
	})
}

// Many keys are inspected in one round trip: the server has every request before it has sent a reply.
func TestInspectAllTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		commands int // for each key
		open     func(redis.UniversalClient) lock.Locker
	}{
		{"setnx", 1, func(c redis.UniversalClient) lock.Locker {
			return redislock.NewSetNX(c, redislock.SetNXOptions{Lease: time.Hour})
		}},
		{"setnx-del", 1, func(c redis.UniversalClient) lock.Locker {
			return redislock.NewSetNXDel(c, redislock.SetNXOptions{Lease: time.Hour})
		}},
		{"watchdog", 1, func(c redis.UniversalClient) lock.Locker {
			return redislock.NewWatchdog(c, redislock.WatchdogOptions{Lease: time.Hour})
		}},
		{"rlock", 2, func(c redis.UniversalClient) lock.Locker {
			return redislock.NewRLock(c, redislock.RLockOptions{Lease: time.Hour})
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p, err := wire.Listen(stacktest.Redis(t).Addr, wire.Redis())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			c := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, ReadTimeout: patience, PoolSize: 4})
			t.Cleanup(func() { c.Close() })
			l := row.open(c)
			t.Cleanup(func() { _ = l.(io.Closer).Close() })
			keys := make([]string, 200)
			for i := range keys {
				keys[i] = fmt.Sprint("k", i)
			}
			for _, i := range []int{0, 7, 199} {
				held, err := l.Acquire(t.Context(), keys[i], lock.Options{Owner: fmt.Sprint("app/", i)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = held.Release() })
			}
			if err := locktest.SameStates(t.Context(), l, append(keys, "k0")); err != nil { // loads the script, too
				t.Error(err)
			}
			before := p.Count(wire.ToServer)
			p.Silence(wire.ToClient)
			done := make(chan error, 1)
			go func() {
				_, err := lock.InspectAll(t.Context(), l, keys)
				done <- err
			}()
			want := len(keys) * row.commands
			eventually(t, "all requests arrive", func() bool { return p.Count(wire.ToServer)-before >= want })
			p.Silence()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if n := p.Count(wire.ToServer) - before; n >= 2*want {
				t.Errorf("%d requests, want about %d", n, want)
			}
		})
	}
}

// A server that does not know the script gets its source, in a second round trip.
func TestInspectAllLoadsTheScript(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	c := client(t, s)
	l := watchdog(t, s, redislock.WatchdogOptions{})
	acquire(t, l, "b")
	if err := c.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	states, err := l.InspectAll(t.Context(), []string{"a", "b"})
	if err != nil || len(states) != 2 || states[0].Holder != nil || states[1].Holder == nil {
		t.Errorf("%+v, %v", states, err)
	}
}

// A key that is no lock ends the list, and the states before it are returned.
func TestInspectAllEndsAtAKeyThatIsNoLock(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	if err := client(t, s).HSet(t.Context(), "lock:{b}", "field", "value").Err(); err != nil {
		t.Fatal(err)
	}
	states, err := setnx(t, s, 0).InspectAll(t.Context(), []string{"a", "b", "c"})
	if len(states) != 1 || !mentions(err, "lock:{b}") {
		t.Errorf("%+v, %v", states, err)
	}
}
