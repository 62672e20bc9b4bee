package redislock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
)

// listeners returns how many connections wait for the releases of a key.
func listeners(t *testing.T, c redis.UniversalClient, key string) int64 {
	t.Helper()
	channel := "rlock:{" + key + "}:free"
	found, err := c.PubSubNumSub(t.Context(), channel).Result()
	if err != nil {
		t.Fatal(err)
	}
	return found[channel]
}

// The key is a hash with the holder and how often it has entered, as Redisson's is.
func TestRLockIsAHash(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	c, l, key := client(t, s), rlock(t, s, redislock.RLockOptions{}), locktest.FreshKey()
	lease, err := l.Acquire(t.Context(), key, lock.Options{Owner: "app-1/request-7"})
	if err != nil {
		t.Fatal(err)
	}
	found := c.HVals(t.Context(), "rlock:{"+key+"}").Val()
	if len(found) != 1 || found[0] != "1" || lease.Fence() != lock.NoFence {
		t.Errorf("the hash has %q, fence %d; want one field with 1, and no fence", found, lease.Fence())
	}
	state := inspect(t, l, key)
	if h := state.Holder; h == nil || h.Who != "app-1/request-7" || h.Remaining <= 0 || h.Remaining > 30*time.Second {
		t.Errorf("holder: %+v", h)
	}
	var held *lock.HeldError
	if err := tryKey(t, l, key); !errors.As(err, &held) || held.Holder != "app-1/request-7" || held.Remaining <= 0 {
		t.Errorf("err = %+v, want the holder and what remains", err)
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	if state := inspect(t, l, key); state.Holder != nil {
		t.Errorf("after the release: %+v", state.Holder)
	}
}

// A message wakes one waiter of each process. Of six in two processes no more are woken for seven releases than two
// for each: if it woke all it would be 21.
func TestRLockWakesOneOfEachProcess(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	key, c := locktest.FreshKey(), client(t, s)
	locks := []*redislock.RLock{rlock(t, s, redislock.RLockOptions{}), rlock(t, s, redislock.RLockOptions{})}
	count := make([]*tripCounter, len(locks))
	for i := range locks {
		through := client(t, s)
		locks[i] = closer(t, redislock.NewRLock(through, redislock.RLockOptions{}))
		_ = acquire(t, locks[i], key).Release() // connects and loads the scripts
		count[i] = new(tripCounter)
		through.AddHook(count[i])
	}
	held := acquire(t, locks[0], key)
	var woken atomic.Int64
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			lease, err := locks[i%2].Acquire(t.Context(), key, lock.Options{OnWake: func() { woken.Add(1) }})
			if err != nil {
				t.Error(err)
				return
			}
			_ = lease.Release()
		})
	}
	// One to acquire, one for each waiter, and one more for those who were there when the subscription stood.
	asked := func() int64 { return count[0].n.Load() + count[1].n.Load() }
	eventually(t, "all wait", func() bool { return listeners(t, c, key) == 2 && asked() >= 9 })
	_ = held.Release()
	all.Wait()
	if got := woken.Load(); got < 1 || got > 14 {
		t.Errorf("%d wake-ups for 7 releases and 2 processes", got)
	}
}

// A waiter asks nothing while nothing happens.
func TestRLockSleeps(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	key, c := locktest.FreshKey(), client(t, s)
	l := closer(t, redislock.NewRLock(c, redislock.RLockOptions{}))
	held := acquire(t, rlock(t, s, redislock.RLockOptions{}), key)
	got := acquireLater(t, l, key)
	eventually(t, "it waits", func() bool { return listeners(t, client(t, s), key) == 1 })
	count := new(tripCounter)
	c.AddHook(count)
	// It asks once more when it listens, and a busy computer may let it do so late. A watchdog would ask every time.
	eventually(t, "it asks nothing", func() bool {
		before := count.n.Load()
		time.Sleep(1200 * time.Millisecond)
		return count.n.Load() == before
	})
	_ = held.Release()
	if lease := <-got; lease != nil {
		_ = lease.Release()
	}
}

// A subscription that breaks costs nobody the rest of the holder's lease: what is released before it stands again is
// not heard, so all who wait ask when it does.
func TestRLockSubscribesAnew(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	c := client(t, s)
	p, through := wired(t, s)
	held := acquire(t, rlock(t, s, redislock.RLockOptions{Lease: time.Hour}), "k")
	got := acquireLater(t, closer(t, redislock.NewRLock(through, redislock.RLockOptions{})), "k")
	eventually(t, "it waits", func() bool { return listeners(t, c, "k") == 1 })
	anew := p.Set(wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: wire.Contains("subscribe")})
	if n, err := c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Int(); err != nil || n != 1 {
		t.Fatalf("killed %d, %v", n, err)
	}
	<-anew.Sprung()
	settled := p.Count(wire.ToServer)
	eventually(t, "it has asked after the break", func() bool {
		before := settled
		settled = p.Count(wire.ToServer)
		return before == settled
	})
	_ = held.Release()
	anew.Release()
	if lease := <-got; lease != nil {
		_ = lease.Release()
	}
}

// Who was woken and fails passes on what woke it: the next waiter does not sleep on beside a free key.
func TestRLockPassesTheMessageOn(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	p, through := wired(t, s)
	l := closer(t, redislock.NewRLock(through, redislock.RLockOptions{}))
	held := acquire(t, rlock(t, s, redislock.RLockOptions{Lease: time.Hour}), "k")
	results := make(chan error, 2)
	for range 2 {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			lease, err := l.Acquire(ctx, "k", lock.Options{})
			if err == nil {
				err = lease.Release()
			}
			results <- err
		}()
	}
	// Each asks, one subscribes, and one at least asks again.
	c := client(t, s)
	eventually(t, "both wait", func() bool { return p.Count(wire.ToServer) >= 4 && listeners(t, c, "k") == 1 })
	time.Sleep(200 * time.Millisecond) // the answers come
	p.Set(wire.Trap{On: wire.ToServer, Do: wire.Cut, Match: wire.Contains("{k}")})
	_ = held.Release()
	one, other := <-results, <-results
	if other == nil {
		one, other = other, one
	}
	if one != nil || !errors.Is(other, lock.ErrDown) {
		t.Errorf("%v, %v; want one whose request was cut off, and one that was woken for it", one, other)
	}
}

// When nobody waits any more the subscription ends with the next release.
func TestRLockUnsubscribes(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	key, c := locktest.FreshKey(), client(t, s)
	a, b := rlock(t, s, redislock.RLockOptions{}), rlock(t, s, redislock.RLockOptions{})
	for range 3 {
		held := acquire(t, a, key)
		got := acquireLater(t, b, key)
		eventually(t, "it waits", func() bool { return listeners(t, c, key) == 1 })
		_ = held.Release()
		if lease := <-got; lease != nil {
			_ = lease.Release()
		}
		eventually(t, "it does not listen any more", func() bool { return listeners(t, c, key) == 0 })
	}
}

// A waiter that goes away is not woken in place of one that still waits.
func TestRLockWithoutTheWaiterThatLeft(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	key, c := locktest.FreshKey(), client(t, s)
	l := rlock(t, s, redislock.RLockOptions{})
	held := acquire(t, rlock(t, s, redislock.RLockOptions{Lease: time.Hour}), key)
	ctx, leave := context.WithCancelCause(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx, key, lock.Options{})
		left <- err
	}()
	eventually(t, "it waits", func() bool { return listeners(t, c, key) == 1 })
	got := acquireLater(t, l, key)
	gone := errors.New("gone")
	leave(gone)
	if err := <-left; !errors.Is(err, gone) {
		t.Errorf("err = %v, want the reason for which it left", err)
	}
	_ = held.Release()
	if lease := <-got; lease != nil {
		_ = lease.Release()
	}
}

// A lease time is not renewed: whoever works longer loses the lock, is told so, and is followed. That also holds of a
// waiter that was granted the lock.
func TestALeaseTimeIsNotRenewed(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	const leaseTime = time.Second
	for name, open := range map[string]func(testing.TB, time.Duration) lock.Locker{
		"watchdog": func(t testing.TB, d time.Duration) lock.Locker {
			return watchdog(t, s, redislock.WatchdogOptions{Lease: time.Hour, LeaseTime: d})
		},
		"rlock": func(t testing.TB, d time.Duration) lock.Locker {
			return rlock(t, s, redislock.RLockOptions{Lease: time.Hour, LeaseTime: d})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := locktest.FreshKey()
			l, c := open(t, leaseTime), client(t, s)
			if err := awaitLoss(t, acquire(t, l, key)); !errors.Is(err, lock.ErrExpired) {
				t.Errorf("the first holder: %v, want ErrExpired", err)
			}
			second := acquire(t, l, key)
			third := acquireLater(t, l, key)
			eventually(t, "it waits", func() bool {
				return c.LLen(t.Context(), name+":{"+key+"}:queue").Val() == 1 || listeners(t, c, key) == 1
			})
			_ = second.Release()
			lease := <-third
			if lease == nil {
				t.FailNow()
			}
			if left := c.PTTL(t.Context(), name+":{"+key+"}").Val(); left > leaseTime {
				t.Errorf("the lease of who waited runs for %v, want %v at most", left, leaseTime)
			}
			if err := awaitLoss(t, lease); !errors.Is(err, lock.ErrExpired) {
				t.Errorf("who waited: %v, want ErrExpired", err)
			}
			if err := lease.Release(); !errors.Is(err, lock.ErrLost) {
				t.Errorf("its release: %v, want ErrLost", err)
			}
			_ = acquire(t, l, key).Release()
		})
	}
}

// A release whose message is refused is a release.
func TestAReleaseThatMayNotPublish(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	admin := client(t, s)
	user := []any{"ACL", "SETUSER", "quiet", "on", ">pw", "~*", "+@all", "resetchannels"}
	if err := admin.Do(t.Context(), user...).Err(); err != nil {
		t.Fatal(err)
	}
	c := dialAs("quiet", s.Addr)
	t.Cleanup(func() { _ = c.Close() })
	r := closer(t, redislock.NewRLock(c, redislock.RLockOptions{Lease: time.Hour}))
	for range 2 {
		lease, err := r.Acquire(t.Context(), t.Name(), lock.Options{TryOnce: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(); err != nil {
			t.Errorf("release: %v", err)
		}
	}
}
