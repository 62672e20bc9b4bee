package redislock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
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

// Those who wait for a watchdog are told in the order in which they then have it, and one that has died is not told.
func TestInspectTellsTheWaitersInOrder(t *testing.T) {
	s := stacktest.Redis(t)
	c := client(t, s)
	one, two := watchdog(t, s, redislock.WatchdogOptions{}), watchdog(t, s, redislock.WatchdogOptions{})
	held := acquire(t, one, "k")
	// As a waiter that was killed: it last asked an hour ago.
	if err := c.RPush(t.Context(), "watchdog:{k}:queue", "dead:1 app-9/dead").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.HSet(t.Context(), "watchdog:{k}:seen", "dead:1 app-9/dead", time.Now().Add(-time.Hour).UnixMilli()).Err(); err != nil {
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

// The locks without a fence tell who has them, too, and cannot be taken away.
func TestInspectLocksWithoutAFence(t *testing.T) {
	s := servers.Redis(t)
	del := redislock.NewSetNXDel(client(t, s), redislock.SetNXOptions{Lease: time.Minute})
	t.Cleanup(func() { del.Close() })
	key := t.Name()
	held, err := del.Acquire(t.Context(), key, lock.Options{Owner: "app-1/r"})
	if err != nil {
		t.Fatal(err)
	}
	h := inspect(t, del, key).Holder
	if h == nil || h.Who != "app-1/r" || h.Remaining <= 0 || h.Remaining > time.Minute || h.Fence != lock.NoFence || !h.Since.IsZero() {
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
