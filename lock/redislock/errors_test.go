package redislock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
)

// A refusal of the server is named at once, with what to do, and leaves nothing behind.
func TestRefusalsAreNamed(t *testing.T) {
	each(t, prefixes, func(t *testing.T, name string, c *redis.Client, l lock.Locker) {
		ctx := t.Context()
		c.SAdd(ctx, name, "foreign")
		err := locktest.Try(t, l, "k")
		if !mentions(err, name) || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrDown) {
			t.Errorf("a key of another type: %v, want an error that names it", err)
		}
		if _, err := lock.Inspect(ctx, l, "k"); !mentions(err, "is no lock") {
			t.Errorf("inspected: %v", err)
		}
		c.Del(ctx, name)
		lease := acquire(t, l, "k")
		c.Persist(ctx, name)
		state, err := lock.Inspect(ctx, l, "k")
		if err != nil || state.Holder == nil || state.Holder.Remaining != driver.Forever {
			t.Errorf("a key without a time limit: %+v, %v", state.Holder, err)
		}
		locktest.Release(t, lease)
		if _, fenced := l.(driver.Evictor); fenced {
			c.Del(ctx, name+":fence")
			c.SAdd(ctx, name+":fence", "foreign")
			if err := locktest.Try(t, l, "k"); !mentions(err, name) {
				t.Errorf("a fence of another type: %v", err)
			}
		}
		if exists(t, c, name) {
			t.Error("a lock was left behind")
		}
	})
}

// All connections of the pool are in use: nothing was sent, so there is nothing to take back, and Redis is not to
// blame.
func TestNoFreeConnectionIsOverload(t *testing.T) {
	t.Parallel()
	c := closer(t, redis.NewClient(&redis.Options{
		Addr: servers.Redis(t).Addr, ContextTimeoutEnabled: true, MaxRetries: -1,
		PoolSize: 1, PoolTimeout: 50 * time.Millisecond,
	}))
	conn := closer(t, c.Conn())
	if err := conn.Ping(t.Context()).Err(); err != nil { // it keeps the connection
		t.Fatal(err)
	}
	asked := new(tripCounter)
	c.AddHook(asked)
	for _, name := range prefixes[:2] {
		_, err := open(t, name, c, 0).Acquire(t.Context(), locktest.FreshKey(), lock.Options{})
		if !errors.Is(err, lock.ErrOverloaded) || errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrHeld) {
			t.Errorf("%s: %v, want overloaded and nothing else", name, err)
		}
	}
	if n := asked.n.Load(); n != 2 {
		t.Errorf("the client was asked %d times, want once for each lock", n)
	}
}

// An option that no lock can keep is an error that names it, and no server that is down. Nothing is asked: no server
// listens here.
func TestAnInvalidOptionIsNamed(t *testing.T) {
	c := client(t, "127.0.0.1:1")
	named := func(option string, err error) {
		t.Helper()
		if !errors.Is(err, lock.ErrInvalid) || errors.Is(err, lock.ErrDown) || !mentions(err, option+" ") {
			t.Errorf("%s: %v, want ErrInvalid with the name", option, err)
		}
	}
	for _, name := range prefixes {
		named("Lease", locktest.Try(t, open(t, name, c, -1), "k"))
	}
	two, three := client(t, "127.0.0.1:2"), client(t, "127.0.0.1:3")
	_, err := redislock.NewRedlock([]*redis.Client{c, two, three}, redislock.RedlockOptions{NodeTimeout: -1})
	named("NodeTimeout", err)
	for says, clients := range map[string][]*redis.Client{
		"at least 3": {c, two}, "listed twice": {c, two, c},
		"ContextTimeoutEnabled": {c, two, closer(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:4"}))},
	} {
		if _, err := redislock.NewRedlock(clients, redislock.RedlockOptions{}); !mentions(err, says) {
			t.Errorf("err = %v, want %q", err, says)
		}
	}
}
