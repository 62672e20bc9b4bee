package redislock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/servertest"
)

// A script that lacks a right writes nothing, whichever right it is.
func TestAScriptThatIsRefusedHasWrittenNothing(t *testing.T) {
	t.Parallel()
	addr := servertest.Redis(t).Addr
	c := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
	})
	t.Cleanup(func() { _ = c.Close() })
	rights := servertest.NewRights(t, addr)
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
		servertest.Eventually(t, time.Minute, "it is free", func() (bool, string) {
			state, err := lock.Inspect(t.Context(), l, "k")
			return err == nil && state.Holder == nil, fmt.Sprint(err)
		})
	}
	// What the drivers send in other states of the key. What the server answers depends on how long the trials take: a
	// waiter that has not asked for five seconds is dead.
	ctx := t.Context()
	send := func(what string, c call) {
		t.Helper()
		if err := c.run(ctx, watchdog.client).Err(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	evict := func(evict func(context.Context, string) (lock.Fence, error), key string) {
		t.Helper()
		if _, err := evict(ctx, key); err != nil {
			t.Errorf("evict: %v", err)
		}
	}
	a := setNX.attempt("k", lock.Options{})
	send("acquire", a.acquire)
	send("acquire again", a.acquire)
	evict(setNX.Evict, "k")
	send("release a free lock", a.release)

	one, two, three := watchdog.attempt("q", lock.Options{}), watchdog.attempt("q", lock.Options{}),
		watchdog.attempt("q", lock.Options{})
	enter := func(a *attempt, number uint64) { _, _ = watchdog.request(ctx, a, number) }
	enter(one, 0)
	enter(one, 0)
	enter(two, 1)
	enter(three, 1)
	renew := call{watchdog.renew, one.acquire.keys[:1], []any{one.value, life.Milliseconds()}}
	send("renew", renew)
	send("leave for the next", one.release)
	send("renew what another has", renew)
	evict(watchdog.Evict, "q")
	enter(one, 1)
	send("leave the queue", one.release)
	enter(one, 1)
	c.Del(ctx, one.acquire.keys[0])
	enter(two, 1) // the lock is free, and goes to the first in the queue
	send("leave", one.release)

	r := rlock.attempt("k", lock.Options{})
	again := call{rlock.renew, r.acquire.keys, r.acquire.args}
	send("leave a free lock", r.release)
	send("enter", r.acquire)
	send("renew", again)
	send("leave", r.release)
	send("renew a free lock", again)

	rights.Check(acquireSource, releaseSource, renewSource, enterSource, leaveSource, queueSource,
		evictSource, rlockEnterSource, rlockLeaveSource, rlockRenewSource)
}
