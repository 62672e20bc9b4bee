package redislock

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/redislock/internal/request"
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
	setNX, watchdog := NewSetNX(c, SetNXOptions{Lease: life}), NewWatchdog(c, WatchdogOptions{Lease: life})
	t.Cleanup(func() { _ = errors.Join(setNX.Close(), watchdog.Close()) })
	ctx := t.Context()
	send := func(script request.Call) {
		t.Helper()
		if err := script.Run(ctx, c).Err(); err != nil {
			t.Error(err)
		}
	}
	for _, l := range []lock.Locker{setNX, watchdog} {
		if _, err := lock.Inspect(ctx, l, "k"); err != nil {
			t.Error(err)
		}
	}
	evict := func(l lock.Locker, key string) {
		t.Helper()
		if _, err := lock.Evict(ctx, l, key); err != nil {
			t.Errorf("evict: %v", err)
		}
	}
	// What the server answers depends on how long the trials take: a waiter that has not asked for 5 s is dead.
	a := setNX.attempt("k", lock.Options{})
	send(a.Acquire)
	send(a.Acquire)
	send(setNX.attempt("k", lock.Options{}).Acquire)
	send(a.Release)
	evict(setNX, "k")
	one, two := watchdog.attempt("k", lock.Options{}), watchdog.attempt("k", lock.Options{})
	enter := func(a *request.Attempt, number uint64) { _, _, _ = watchdog.request(ctx, a, number) }
	enter(one, 0)
	enter(two, 1)
	send(watchdog.renewal(one))
	send(one.Release) // for the next
	enter(one, 1)
	evict(watchdog, "k")
	enter(two, 1)
	send(two.Release) // leaves the queue
	enter(two, 1)
	c.Del(ctx, one.Acquire.Keys[0])
	enter(one, 1) // the lock is free, and goes to the first in the queue
	send(two.Release)

	sources := []string{fenceSource, acquireSource, renewSource, enterSource, leaveSource, queueSource, evictSource}
	for _, step := range []string{"leave 1", "enter 1", "enter 2", "renew 1", "leave 1", "renew 1"} {
		verb, value, _ := strings.Cut(step, " ")
		source, err := os.ReadFile("teaching/rlock_" + verb + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		send(request.Call{
			Script: redisscript.New(string(source)), Keys: []string{"rlock:{k}"},
			Args: []any{value, life.Milliseconds()},
		})
		sources = append(sources, string(source))
	}
	rights.Check(append(sources, a.Release.Script.Source)...)
}
