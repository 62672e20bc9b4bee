package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
	"example.com/stock/stack/wire"
)

// wired is a client whose requests and replies pass a proxy.
func wired(t *testing.T, s *stack.Server) (*wire.Proxy, redis.UniversalClient) {
	t.Helper()
	p, err := wire.Listen(s.Addr, wire.Redis())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, dialTo(t, p.Addr())
}

func dialTo(t *testing.T, addr string) redis.UniversalClient {
	return closer(t, redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 32,
		DialTimeout: 20 * time.Second, DialerRetries: 1, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second,
	}))
}

// wants waits for a lease in the background. What comes is nil if none came.
func wants(t *testing.T, l lock.Locker, key string) <-chan *lock.Lease {
	got := make(chan *lock.Lease, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	go func() {
		lease, err := l.Acquire(ctx, key, lock.Options{})
		if err != nil {
			t.Errorf("who waited: %v", err)
		}
		got <- lease
	}()
	return got
}

// A waiter that was away for longer than its grant asks again, and only then hears of the grant of before, which has
// run out and is another's by now. It must not take it: the message answers an earlier ask.
func TestAStaleGrantIsNotTaken(t *testing.T) {
	s := stacktest.Redis(t)
	eye := client(t, s)
	p, through := wired(t, s)
	one, third := watchdog(t, s, redislock.WatchdogOptions{}), watchdog(t, s, redislock.WatchdogOptions{})
	away := closer(t, redislock.NewWatchdog(through, redislock.WatchdogOptions{}))

	first := acquire(t, one, "k")
	got := wants(t, away, "k")
	awaitQueue(t, eye, 1)
	// It is away: it hears nothing, and what it asks does not arrive.
	message := p.Set(wire.Trap{On: wire.ToClient, Match: wire.Contains("message"), Do: wire.Hold})
	ask := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("watchdog:{k}"), Do: wire.Hold})
	_ = first.Release()
	<-message.Sprung()
	eye.Del(t.Context(), "watchdog:{k}") // the four seconds of the grant are over
	holder := acquire(t, third, "k")

	<-ask.Sprung()
	ask.Release()
	awaitQueue(t, eye, 1) // it asks anew, and stands at the end of the queue
	asked := seen(t, eye)
	message.Release()
	eventually(t, "it asks again", func() bool {
		select {
		case lease := <-got:
			t.Fatalf("two live leases: fence %d, and then %d of a grant that had run out", holder.Fence(), lease.Fence())
		default:
		}
		return seen(t, eye) != asked
	})
	_ = holder.Release()
	if next := <-got; next == nil || next.Fence() <= holder.Fence() {
		t.Errorf("the next holder: %+v, want one with a larger fence than %d", next, holder.Fence())
	} else {
		_ = next.Release()
	}
}

// seen is what is written down of those who wait.
func seen(t *testing.T, c redis.UniversalClient) string {
	t.Helper()
	text := ""
	for _, at := range c.HGetAll(t.Context(), "watchdog:{k}:seen").Val() {
		text += at
	}
	return text
}

// A grant that comes when its lease is over is none, however it comes: the reply was held up, or its process was
// stopped.
func TestALateReplyIsNoLease(t *testing.T) {
	s := stacktest.Redis(t)
	const lease = 300 * time.Millisecond
	for name, open := range map[string]func(redis.UniversalClient, time.Duration) lock.Locker{
		"lock": func(c redis.UniversalClient, d time.Duration) lock.Locker {
			return closer(t, redislock.NewSetNX(c, redislock.SetNXOptions{Lease: d}))
		},
		"watchdog": func(c redis.UniversalClient, d time.Duration) lock.Locker {
			return closer(t, redislock.NewWatchdog(c, redislock.WatchdogOptions{Lease: d}))
		},
		"setnx-watch": func(c redis.UniversalClient, d time.Duration) lock.Locker {
			return closer(t, redislock.NewSetNXWatch(c, redislock.SetNXOptions{Lease: d}))
		},
		"setnx-expire": func(c redis.UniversalClient, d time.Duration) lock.Locker {
			o := redislock.SetNXOptions{Lease: d}
			return closer(t, redislock.NewSetNXExpire(c, redislock.SetNXExpireOptions{SetNXOptions: o}))
		},
		"setnx-del": func(c redis.UniversalClient, d time.Duration) lock.Locker {
			return redislock.NewSetNXDel(c, redislock.SetNXOptions{Lease: d})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, through := wired(t, s)
			late, other := open(through, lease), open(client(t, s), time.Minute)
			if warm, err := late.Acquire(t.Context(), "warm", lock.Options{}); err == nil {
				_ = warm.Release()
			}
			last := map[string]string{"setnx-expire": "pexpire"}[name] // its SETNX alone gives no lease
			reply := p.Set(wire.Trap{Do: wire.HoldReply, Match: func(m []byte) bool {
				return wire.Contains("{k}")(m) && wire.Contains(last)(m)
			}})
			got := make(chan error, 1)
			go func() {
				_, err := late.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
				got <- err
			}()
			<-reply.Sprung()
			holder := acquire(t, other, "k") // for whom the first lease has run out
			reply.Release()
			if err := <-got; !errors.Is(err, lock.ErrHeld) {
				t.Errorf("err = %v, want ErrHeld: another holds it, and nothing is left of that lease", err)
			}
			if err := holder.Release(); err != nil {
				t.Errorf("what came late took the key of another: %v", err)
			}
		})
	}
}

// A lease that is shorter than the time between two asks begins with its grant all the same, and is not over when it begins.
func TestAGrantOfAShortLease(t *testing.T) {
	s := stacktest.Redis(t)
	eye := client(t, s)
	w := watchdog(t, s, redislock.WatchdogOptions{Lease: 600 * time.Millisecond})
	var lost error
	for range 5 { // a busy computer may lose a lease that is so short
		held := acquire(t, watchdog(t, s, redislock.WatchdogOptions{}), "k")
		got := wants(t, w, "k")
		awaitQueue(t, eye, 1)
		time.Sleep(650 * time.Millisecond) // longer than the lease, and shorter than the time until it asks again
		_ = held.Release()
		lease := <-got
		if lease == nil {
			t.FailNow()
		}
		time.Sleep(50 * time.Millisecond) // in which a lease that is over would say so
		lost = lease.Err()
		_ = lease.Release()
		if lost == nil {
			return
		}
	}
	t.Errorf("it is lost as soon as it is granted: %v", lost)
}
