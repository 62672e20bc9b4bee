package redislock_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/lock/redislock"
	"example.com/stock/lock/redislock/teaching"
)

// servers has one Redis for all tests that leave it as it is.
var servers servertest.Shared

func TestMain(m *testing.M) {
	// A client whose server was killed for long enough asks once a second whether it is back. When the client is closed
	// it sleeps that second out.
	goleak.VerifyTestMain(servers.Around(m, server.Redis),
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// started starts servers that keep an AOF: one that came back empty would have forgotten its locks.
func started(t testing.TB, n int) (list []*server.Server) {
	t.Helper()
	s := servertest.Start(t, server.Options{AOF: true})
	for range n {
		started, err := s.Add(t.Context(), server.Redis)
		if err != nil {
			t.Fatal(err)
		}
		if started.StandIn != "" {
			servertest.Redis(t) // which skips, or fails where it must not
		}
		list = append(list, started)
	}
	return list
}

// client returns a client as the service has it, with more patience for a busy computer.
func client(t testing.TB, addr string) *redis.Client {
	return closer(t, redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 32,
		DialTimeout: patience, DialerRetries: 1, ReadTimeout: patience, WriteTimeout: patience,
	}))
}

// wired returns a client whose requests and replies pass a proxy.
func wired(t *testing.T, addr string) (*wire.Proxy, *redis.Client) {
	t.Helper()
	p, err := wire.Listen(addr, wire.Redis())
	if err != nil {
		t.Fatal(err)
	}
	return closer(t, p), client(t, p.Addr())
}

// prefixes are those of the locks on one Redis, by which they are also named here.
var prefixes = []string{"lock", "watchdog", "rlock", "setnx-expire", "setnx-del", "setnx-watch"}

// newLock makes a lock on one Redis.
func newLock(prefix string, c redis.UniversalClient, lease time.Duration) lock.Locker {
	o := teaching.SetNXOptions{Lease: lease}
	switch prefix {
	case "lock":
		return redislock.NewSetNX(c, redislock.SetNXOptions{Lease: lease})
	case "watchdog":
		return redislock.NewWatchdog(c, redislock.WatchdogOptions{Lease: lease})
	case "rlock":
		return teaching.NewRLock(c, teaching.RLockOptions{Lease: lease})
	case "setnx-expire":
		return teaching.NewSetNXExpire(c, teaching.SetNXExpireOptions{Lease: lease})
	case "setnx-del":
		return teaching.NewSetNXDel(c, o)
	default:
		return teaching.NewSetNXWatch(c, o)
	}
}

// open opens a lock on one Redis until the test ends.
func open(t testing.TB, prefix string, c redis.UniversalClient, lease time.Duration) lock.Locker {
	l := newLock(prefix, c, lease)
	closer(t, l.(io.Closer))
	return l
}

// each runs a test for each of some locks, with a Redis of its own. name is that of the lock k there.
func each(t *testing.T, which []string, test func(t *testing.T, name string, c *redis.Client, l lock.Locker)) {
	t.Parallel()
	for _, prefix := range which {
		t.Run(prefix, func(t *testing.T) {
			t.Parallel()
			c := client(t, servertest.Redis(t).Addr)
			test(t, prefix+":{k}", c, open(t, prefix, c, 0))
		})
	}
}

// closer closes l when the test ends.
func closer[L io.Closer](t testing.TB, l L) L {
	t.Cleanup(func() { l.Close() })
	return l
}

// patience is how long a test waits for what must come, on a computer that has other work.
const patience = time.Minute

func acquire(t testing.TB, l lock.Locker, key string) *lock.Lease {
	t.Helper()
	return locktest.Acquire(t, l, key, "holder")
}

func mentions(err error, what string) bool { return err != nil && strings.Contains(err.Error(), what) }

func exists(t testing.TB, c redis.UniversalClient, key string) bool {
	return c.Exists(t.Context(), key).Val() == 1
}

// tripCounter counts the requests that a client waits for.
type tripCounter struct{ n atomic.Int64 }

func (c *tripCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.n.Add(1); return next(ctx, cmd) }
}

func (c *tripCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.n.Add(1); return next(ctx, cmds) }
}
