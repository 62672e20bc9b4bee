package redislock

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
)

// A script that lacks a right writes nothing, whichever right it is.
func TestAScriptThatIsRefusedHasWrittenNothing(t *testing.T) {
	t.Parallel()
	addr := stacktest.Redis(t).Addr
	c := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
	})
	t.Cleanup(func() { _ = c.Close() })
	rights := stacktest.NewRights(t, addr)
	c.AddHook(rights)
	const life = 10 * time.Minute
	setNX := NewSetNX(c, SetNXOptions{Lease: life})
	watchdog := NewWatchdog(c, WatchdogOptions{Lease: life})
	rlock := NewRLock(c, RLockOptions{Lease: life})
	for _, l := range []interface {
		lock.Locker
		Close() error
	}{setNX, watchdog, rlock} {
		t.Cleanup(func() { _ = l.Close() })
		lease, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); err == nil {
			t.Fatal("two holders")
		}
		if _, err := lock.Inspect(t.Context(), l, "k"); err != nil {
			t.Error(err)
		}
		// All that Rights tries may take longer than a release waits, which is then repeated.
		if err := lease.Release(); err != nil && !errors.Is(err, lock.ErrDown) {
			t.Error(err)
		}
		stacktest.Eventually(t, time.Minute, "it is free", func() (bool, string) {
			state, err := lock.Inspect(t.Context(), l, "k")
			return err == nil && state.Holder == nil, fmt.Sprint(err)
		})
	}
	ctx := t.Context()
	must := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	// What the drivers send in other states of the key.
	a := setNX.attempt("k", lock.Options{})
	must("acquire", a.acquire.run(ctx, c).Err(), nil)
	must("acquire again", a.acquire.run(ctx, c).Err(), nil)
	must("evict", second(setNX.Evict(ctx, "k")), nil)
	must("release of a free lock", first(a.release.run(ctx, c).Int()), 0)

	enter := func(a *attempt, number uint64) {
		t.Helper()
		if _, err := watchdog.request(ctx, a, number); err != nil && number == 0 {
			t.Error(err)
		}
	}
	one, two, three := watchdog.attempt("q", lock.Options{}), watchdog.attempt("q", lock.Options{}),
		watchdog.attempt("q", lock.Options{})
	enter(one, 0)
	enter(one, 0)
	enter(two, 1)
	enter(three, 1)
	renew := call{watchdog.renew, one.acquire.keys[:1], []any{one.value, life.Milliseconds()}}
	must("renew", first(renew.run(ctx, c).Int()), 1)
	must("leave for the next", first(one.release.run(ctx, c).Int()), 1)
	must("renew what another has", first(renew.run(ctx, c).Int()), -1)
	must("evict for the next", second(watchdog.Evict(ctx, "q")), nil)
	enter(one, 1)
	must("leave the queue", first(one.release.run(ctx, c).Int()), -1)
	enter(one, 1)
	c.Del(ctx, one.acquire.keys[0])
	enter(two, 1) // the lock is free, and goes to the first in the queue
	must("leave", first(one.release.run(ctx, c).Int()), 1)

	r := rlock.attempt("k", lock.Options{})
	must("leave a free lock", first(r.release.run(ctx, c).Int()), 0)
	must("enter", r.acquire.run(ctx, c).Err(), nil)
	again := call{rlock.renew, r.acquire.keys, r.acquire.args}
	must("renew", first(again.run(ctx, c).Int()), 1)
	must("leave", first(r.release.run(ctx, c).Int()), 1)
	must("renew a free lock", first(again.run(ctx, c).Int()), 0)

	rights.Check(acquireSource, releaseSource, renewSource, enterSource, leaveSource, queueSource,
		evictSource, rlockEnterSource, rlockLeaveSource, rlockRenewSource)
}

func first[A, B any](a A, _ B) A  { return a }
func second[A, B any](_ A, b B) B { return b }
