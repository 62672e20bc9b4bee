package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

func TestTheHolderIsNamed(t *testing.T) {
	t.Parallel()
	both(t, 0, func(t *testing.T, _ *stack.Server, _ redis.UniversalClient, l lock.Locker, name string) {
		lease, err := l.Acquire(t.Context(), "k", lock.Options{Owner: "app-1/request-7"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lease.Release() }()
		_, err = l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
		var held *lock.HeldError
		if !errors.As(err, &held) || held.Holder != "app-1/request-7" || held.Remaining <= 0 {
			t.Errorf("err = %+v, want the holder and what remains", err)
		}
	})
}

// A refusal of the server is named at once, with what to do, and leaves nothing behind.
func TestAnswersThatAreNoAnswers(t *testing.T) {
	t.Parallel()
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		ctx := t.Context()
		c.RPush(ctx, name+":{list}", "x")
		if _, err := l.Acquire(ctx, "list", lock.Options{TryOnce: true}); !mentions(err, name+":{list}") ||
			!mentions(err, "remove or rename it") {
			t.Errorf("a key of another type: %v, want an error that names it", err)
		}
		c.RPush(ctx, name+":{k}:fence", "x")
		if _, err := l.Acquire(ctx, "k", lock.Options{TryOnce: true}); !mentions(err, name+":{k}") {
			t.Errorf("a fence of another type: %v, want an error that names it", err)
		}
		if c.Exists(ctx, name+":{k}").Val() != 0 {
			t.Error("the lock was left behind without a fence")
		}
		c.Del(ctx, name+":{k}:fence")
		c.ConfigSet(ctx, "maxmemory", "1")
		if _, err := l.Acquire(ctx, "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrDown) ||
			!mentions(err, "out-of-memory") {
			t.Errorf("out of memory: %v, want ErrDown and the reason", err)
		}
		c.ConfigSet(ctx, "maxmemory", "0")
		if keys := c.Keys(ctx, "*{k}*").Val(); len(keys) > 0 {
			t.Errorf("left behind: %q", keys)
		}
		c.ScriptFlush(ctx)
		lease, err := l.Acquire(ctx, "k", lock.Options{TryOnce: true})
		if err != nil {
			t.Fatalf("after SCRIPT FLUSH: %v", err)
		}
		c.ScriptFlush(ctx)
		if err := lease.Release(); err != nil {
			t.Errorf("release after SCRIPT FLUSH: %v", err)
		}
		c.Set(ctx, name+":{k}:fence", "no number", 0)
		if err := try(t, l); err != nil {
			t.Errorf("a fence that is no number: %v, want one by the clock", err)
		}
		c.Do(ctx, "REPLICAOF", "127.0.0.1", "1")
		if _, err := l.Acquire(
			ctx, "k", lock.Options{TryOnce: true},
		); !errors.Is(err, lock.ErrDown) || !mentions(err, "read-only-replica") {
			t.Errorf("a read-only replica: %v, want ErrDown and the reason", err)
		}
	})
}

// Something else in the place of a held lock has taken it: the holder is told, and leaves it alone.
func TestAForeignKeyInPlaceOfAHeldOne(t *testing.T) {
	t.Parallel()
	both(t, time.Minute, func(t *testing.T, s *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		lease := acquire(t, l, "k")
		c.Del(t.Context(), name+":{k}")
		c.RPush(t.Context(), name+":{k}", "foreign")
		if err := lease.Release(); !errors.Is(err, lock.ErrTaken) {
			t.Errorf("release: %v, want ErrTaken", err)
		}
		if n := c.LLen(t.Context(), name+":{k}").Val(); n != 1 {
			t.Errorf("the foreign list has %d entries, want 1", n)
		}
		renewed := acquire(t, watchdog(t, s, redislock.WatchdogOptions{Lease: 3 * time.Second}), "renewed")
		c.Del(t.Context(), "watchdog:{renewed}")
		c.RPush(t.Context(), "watchdog:{renewed}", "foreign")
		if err := awaitLoss(t, renewed); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrTaken) {
			t.Errorf("at the renewal: %v, want ErrTaken", err)
		}
	})
}

// Something else in the place of the queue does not keep a caller from a free lock, and is named to a caller that
// would wait.
func TestAForeignKeyInPlaceOfTheQueue(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	c, w, key := client(t, s), watchdog(t, s, redislock.WatchdogOptions{}), t.Name()
	name := "watchdog:{" + key + "}"
	for queue, v := range map[string]string{name + ":queue": "list", name + ":seen": "hash"} {
		held := acquire(t, w, key)
		c.Set(t.Context(), queue, "no "+v, 0)
		if _, err := w.Acquire(t.Context(), key, lock.Options{}); !mentions(err, name) ||
			!mentions(err, "remove or rename it") {
			t.Errorf("%s is no %s: %v, want an error that names it", queue, v, err)
		}
		c.Del(t.Context(), queue)
		if n := c.Exists(t.Context(), name+":queue", name+":seen").Val(); n != 0 {
			t.Errorf("%s was no %s: %d keys were left behind", queue, v, n)
		}
		if err := held.Release(); err != nil {
			t.Error(err)
		}
	}
}

// Redis takes any key: long ones, empty ones, and any bytes. No two of them become the same.
func TestOddKeys(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	keys := []string{
		"",
		"%",
		"{%}",
		"{}",
		"{",
		"}",
		"%7B",
		"%257B",
		"k}:fence",
		"k}:queue",
		"k",
		"*",
		"a b",
		"a\nb",
		"a\r\nb",
		"\x00",
		"\xff\xfe",
		"日本",
		strings.Repeat("x", 900),
		strings.Repeat("x", 901),
	}
	m := masterServers.take(t)
	locks := all(t, client(t, s))
	locks["redlock"] = m.redlock(t, redislock.RedlockOptions{})
	for name, l := range locks {
		t.Run(name, func(t *testing.T) {
			for i, key := range keys {
				// An owner's name is text from elsewhere, too.
				lease, err := l.Acquire(
					t.Context(), fmt.Sprint(t.Name(), key), lock.Options{TryOnce: true, Owner: "a\nb"},
				)
				if err != nil {
					t.Errorf("key %d, %.20q: %v", i, key, err)
					continue
				}
				defer func() { _ = lease.Release() }()
			}
			for i, key := range keys {
				if h := inspect(t, l, fmt.Sprint(t.Name(), key)).Holder; h == nil || h.Who != "a\nb" {
					t.Errorf("key %d, %.20q: holder %+v", i, key, h)
				}
			}
		})
	}
}

// A Redis that is killed with a lock held and comes back with its data still has the key. The release that could not
// reach it is repeated, so that nobody waits until a lease of a minute runs out.
func TestAReleaseThatFailedIsMadeUpFor(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Want: []stack.Kind{stack.Redis}, AOF: true})
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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	next, err := w.Acquire(ctx, "k", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
	_ = next.Release()
}

// All connections of the pool are in use: nothing was sent, so there is nothing to take back, and Redis is not to
// blame.
func TestNoFreeConnectionIsOverload(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{
		Addr: servers.Redis(t).Addr, ContextTimeoutEnabled: true, MaxRetries: -1,
		PoolSize: 1, PoolTimeout: 50 * time.Millisecond,
	})
	defer client.Close()
	l := redislock.NewSetNX(client, redislock.SetNXOptions{})
	defer l.Close()
	conn := client.Conn()
	if err := conn.Ping(t.Context()).Err(); err != nil { // it keeps the connection
		t.Fatal(err)
	}
	_, err := l.Acquire(t.Context(), t.Name(), lock.Options{TryOnce: true})
	if !errors.Is(err, lock.ErrOverloaded) || errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrHeld) {
		t.Errorf("%v, want overloaded and nothing else", err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	lease, err := l.Acquire(t.Context(), t.Name(), lock.Options{TryOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
}
