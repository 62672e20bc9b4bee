package redislock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/lock/redislock/teaching"
)

// A holder that was paused between its commands, until a repair let another in, does not hold beside it.
func TestAHolderPausedBetweenTheTwoCommands(t *testing.T) {
	t.Parallel()
	s, key := servers.Redis(t), locktest.FreshKey()
	const lease = time.Second
	p, through := wired(t, s.Addr)
	expire := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("pexpire"), Do: wire.Hold})
	slow := open(t, "setnx-expire", through, lease)
	got := make(chan error, 1)
	go func() { got <- locktest.Try(t, slow, key) }()
	<-expire.Sprung()
	repairing := closer(t, teaching.NewSetNXExpire(client(t, s.Addr), teaching.SetNXExpireOptions{
		Lease: lease, Repair: true,
	}))
	next := acquire(t, repairing, key)
	expire.Release()
	if err := <-got; !errors.Is(err, lock.ErrHeld) {
		t.Errorf("the paused holder: %v, want ErrHeld", err)
	}
	if err := next.Release(); errors.Is(err, lock.ErrTaken) {
		t.Errorf("the next holder lost its key to the paused one: %v", err)
	}
}

// A change between the look and the deletion is noticed: GET and DEL without WATCH would delete another's key here. If
// the key is ours as ever, it is deleted in another transaction.
func TestWatchNoticesWhatComesBetween(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	other := client(t, s.Addr)
	for what, row := range map[string]struct {
		do   func(name string)
		want error
		left bool
	}{
		"another took it": {
			func(name string) { other.Set(t.Context(), name, "x", patience) }, lock.ErrTaken, true,
		},
		"it ran out":                {func(name string) { other.Del(t.Context(), name) }, lock.ErrExpired, false},
		"touched, but ours as ever": {func(name string) { other.PExpire(t.Context(), name, patience) }, nil, false},
	} {
		p, through := wired(t, s.Addr)
		key := locktest.FreshKey()
		name, lease := "setnx-watch:{"+key+"}", acquire(t, open(t, "setnx-watch", through, patience), key)
		deletion := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("\r\ndel\r\n"), Do: wire.Hold})
		freed := make(chan error, 1)
		go func() { freed <- lease.Release() }()
		<-deletion.Sprung()
		row.do(name)
		deletion.Release()
		// On a busy computer the release may take longer than ReleaseTimeout. Then it is repeated.
		if err := <-freed; !errors.Is(err, row.want) && !errors.Is(err, lock.ErrDown) {
			t.Errorf("%s: %v, want %v", what, err, row.want)
		}
		locktest.Eventually(t, what+": the release is over", func() bool { return exists(t, other, name) == row.left })
	}
}

// subscribed reports whether n connections wait for the releases of an RLock.
func subscribed(t *testing.T, c redis.UniversalClient, n int64) func() bool {
	return func() bool { return c.PubSubNumSub(t.Context(), "rlock:free").Val()["rlock:free"] == n }
}

// A waiter asks nothing while nothing happens, even if other keys are released. It asks once more when it listens, and
// a busy computer may let it do so late. A watchdog would ask every time.
func TestRLockSleeps(t *testing.T) {
	t.Parallel()
	addr, count := servertest.Redis(t).Addr, new(tripCounter)
	c, through := client(t, addr), client(t, addr)
	l := open(t, "rlock", c, 0)
	held := acquire(t, l, "k")
	through.AddHook(count)
	got := locktest.Later(t, open(t, "rlock", through, 0), "k", "waiter")
	locktest.Eventually(t, "it waits", subscribed(t, c, 1))
	locktest.Eventually(t, "it asks nothing", func() bool {
		before := count.n.Load()
		locktest.Release(t, acquire(t, l, "other"))
		time.Sleep(1200 * time.Millisecond)
		return count.n.Load() == before
	})
	locktest.Release(t, held)
	locktest.Release(t, <-got)
}

// A subscription that breaks costs no waiter the rest of the holder's lease: a release before it stands again is not
// received, so all waiters ask when it does.
func TestRLockSubscribesAnew(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	c := client(t, s.Addr)
	p, through := wired(t, s.Addr)
	held := acquire(t, open(t, "rlock", c, time.Hour), "k")
	got := locktest.Later(t, open(t, "rlock", through, time.Hour), "k", "waiter")
	locktest.Eventually(t, "one waits", subscribed(t, c, 1))
	anew := p.Set(wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: wire.Contains("subscribe")})
	c.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
	<-anew.Sprung()
	locktest.Release(t, held)
	anew.Release()
	locktest.Release(t, <-got)
}
