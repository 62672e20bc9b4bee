package redislock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

// A release wakes a waiter with the grant: it need not ask for itself, as it does every second. A busy computer may be
// so late that it has asked, so one hand-over of many is enough: who polls asks each time.
func TestWaitersAreWokenNotPolled(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	a, through, c := watchdog(t, s, redislock.WatchdogOptions{}), client(t, s), client(t, s)
	b := closer(t, redislock.NewWatchdog(through, redislock.WatchdogOptions{}))
	asked := new(tripCounter)
	through.AddHook(asked)
	for range 20 {
		lease := acquire(t, a, "k")
		got := acquireLater(t, b, "k")
		awaitQueue(t, c, 1)
		before := asked.n.Load()
		_ = lease.Release()
		next := <-got
		if next == nil {
			t.FailNow()
		}
		woken := asked.n.Load() == before
		_ = next.Release()
		if woken {
			return
		}
	}
	t.Error("in each of 20 hand-overs the waiter has asked for itself: it is not woken")
}

// Each of ten waiters in three processes is woken once, when it is granted the lock: no herd.
func TestWakeUps(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	c := client(t, s)
	locks := []*redislock.Watchdog{
		watchdog(t, s, redislock.WatchdogOptions{}),
		watchdog(t, s, redislock.WatchdogOptions{}),
		watchdog(t, s, redislock.WatchdogOptions{}),
	}
	held := acquire(t, locks[0], "k")
	var woken atomic.Int64
	var all sync.WaitGroup
	for i := range int64(10) {
		all.Go(func() {
			lease, err := locks[i%3].Acquire(t.Context(), "k", lock.Options{OnWake: func() { woken.Add(1) }})
			if err != nil {
				t.Error(err)
				return
			}
			_ = lease.Release()
		})
		awaitQueue(t, c, i+1)
	}
	_ = held.Release()
	all.Wait()
	// A waiter whose message was late has asked before it came, and one that was stopped for long is granted the
	// lock again.
	if got := woken.Load(); got > 20 || got == 0 { // a herd has 55
		t.Errorf("%d wake-ups, want one for each of 10 waiters", got)
	}
}

// A waiter that died in the queue is passed over, and one that died as it was granted the lock holds nobody up for
// a whole lease.
func TestDeadWaiters(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	c := client(t, s)
	w := watchdog(t, s, redislock.WatchdogOptions{Lease: time.Hour})
	lease := acquire(t, w, "k")
	now := c.Time(t.Context()).Val().UnixMilli()
	for value, seen := range map[string]int64{"dead:1 long ago": now - 60_000, "dead:2 just now": now} {
		c.RPush(t.Context(), "watchdog:{k}:queue", value)
		c.HSet(t.Context(), "watchdog:{k}:seen", value, seen)
	}
	got := acquireLater(t, w, "k") // which gives up long before a lease is over
	awaitQueue(t, c, 3)
	_ = lease.Release()
	next := <-got
	if next == nil {
		t.FailNow()
	}
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
	_ = next.Release()
}

// A lost message costs a second, not the lock.
func TestALostGrantIsFound(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	c := client(t, s)
	a, b := watchdog(t, s, redislock.WatchdogOptions{}), watchdog(t, s, redislock.WatchdogOptions{})
	lease := acquire(t, a, "k")
	got := make(chan *lock.Lease, 1)
	go func() {
		next, err := b.Acquire(t.Context(), "k", lock.Options{})
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	awaitQueue(t, c, 1)
	c.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
	_ = lease.Release()
	select {
	case next := <-got:
		_ = next.Release()
	case <-time.After(patience):
		t.Fatal("the waiter was not served")
	}
}

func awaitQueue(t *testing.T, c redis.UniversalClient, n int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if c.LLen(t.Context(), "watchdog:{k}:queue").Val() == n {
			return
		}
	}
	t.Fatalf("the queue is not %d long", n)
}

// wired returns a client whose requests and replies pass a proxy.
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

// acquireLater waits for a lease in the background. The channel gets nil if none came.
func acquireLater(t *testing.T, l lock.Locker, key string) <-chan *lock.Lease {
	got := make(chan *lock.Lease, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	go func() {
		lease, err := l.Acquire(ctx, key, lock.Options{})
		if err != nil {
			t.Errorf("the waiter: %v", err)
		}
		got <- lease
	}()
	return got
}

// A waiter that was away for longer than its grant asks again, and only then hears of the earlier grant, which has
// run out and is another's by now. It must not take it: the message answers an earlier request.
func TestAStaleGrantIsNotTaken(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	observer := client(t, s)
	p, through := wired(t, s)
	one, third := watchdog(t, s, redislock.WatchdogOptions{}), watchdog(t, s, redislock.WatchdogOptions{})
	away := closer(t, redislock.NewWatchdog(through, redislock.WatchdogOptions{}))

	first := acquire(t, one, "k")
	got := acquireLater(t, away, "k")
	awaitQueue(t, observer, 1)
	// It is away: it hears nothing, and its requests do not arrive.
	message := p.Set(wire.Trap{On: wire.ToClient, Match: wire.Contains("message"), Do: wire.Hold})
	ask := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("watchdog:{k}"), Do: wire.Hold})
	_ = first.Release()
	<-message.Sprung()
	observer.Del(t.Context(), "watchdog:{k}") // the four seconds of the grant are over
	holder := acquire(t, third, "k")

	<-ask.Sprung()
	ask.Release()
	awaitQueue(t, observer, 1) // it asks anew, and stands at the end of the queue
	asked := seen(t, observer)
	message.Release()
	eventually(t, "it asks again", func() bool {
		select {
		case lease := <-got:
			t.Fatalf(
				"two live leases: fence %d, and then %d of a grant that had run out", holder.Fence(),
				lease.Fence(),
			)
		default:
		}
		return seen(t, observer) != asked
	})
	_ = holder.Release()
	if next := <-got; next == nil || next.Fence() <= holder.Fence() {
		t.Errorf("the next holder: %+v, want one with a larger fence than %d", next, holder.Fence())
	} else {
		_ = next.Release()
	}
}

// seen returns what Redis has about the waiters of k.
func seen(t *testing.T, c redis.UniversalClient) string {
	t.Helper()
	text := ""
	for _, at := range c.HGetAll(t.Context(), "watchdog:{k}:seen").Val() {
		text += at
	}
	return text
}

// A grant that comes when its lease is over is none, whether the reply was held up or the process was stopped.
func TestALateReplyIsNoLease(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	const lease = 300 * time.Millisecond
	for name, open := range map[string]func(redis.UniversalClient, time.Duration) lock.Locker{
		"lock": func(c redis.UniversalClient, d time.Duration) lock.Locker {
			return closer(t, redislock.NewSetNX(c, redislock.SetNXOptions{Lease: d}))
		},
		"watchdog": func(c redis.UniversalClient, d time.Duration) lock.Locker {
			return closer(t, redislock.NewWatchdog(c, redislock.WatchdogOptions{Lease: d}))
		},
		"rlock": func(c redis.UniversalClient, d time.Duration) lock.Locker {
			return closer(t, redislock.NewRLock(c, redislock.RLockOptions{Lease: d}))
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
