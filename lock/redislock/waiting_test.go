package redislock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
)

// subscribed reports whether n connections wait for the releases of a key of an RLock.
func subscribed(t *testing.T, c redis.UniversalClient, key string, n int64) func() bool {
	channel := "rlock:{" + key + "}:free"
	return func() bool { return c.PubSubNumSub(t.Context(), channel).Val()[channel] == n }
}

// queued reports whether n contenders wait for a key of a Watchdog.
func queued(t *testing.T, c redis.UniversalClient, key string, n int64) func() bool {
	return func() bool { return c.LLen(t.Context(), "watchdog:{"+key+"}:queue").Val() == n }
}

// The key is a hash with the holder and how often it has entered, as Redisson's is.
func TestRLockIsAHash(t *testing.T) {
	t.Parallel()
	c, key := client(t, servers.Redis(t).Addr), locktest.FreshKey()
	acquire(t, open(t, "rlock", c, 0), key)
	if found := c.HVals(t.Context(), "rlock:{"+key+"}").Val(); len(found) != 1 || found[0] != "1" {
		t.Errorf("the hash has %q, want one field with 1", found)
	}
}

// A waiter asks nothing while nothing happens. It asks once more when it listens, and a busy computer may let it do so
// late. A watchdog would ask every time.
func TestRLockSleeps(t *testing.T) {
	t.Parallel()
	addr, key, count := servers.Redis(t).Addr, locktest.FreshKey(), new(tripCounter)
	c, through := client(t, addr), client(t, addr)
	held := acquire(t, open(t, "rlock", c, 0), key)
	through.AddHook(count)
	got := acquireLater(t, open(t, "rlock", through, 0), key)
	eventually(t, "it waits", subscribed(t, c, key, 1))
	eventually(t, "it asks nothing", func() bool {
		before := count.n.Load()
		time.Sleep(1200 * time.Millisecond)
		return count.n.Load() == before
	})
	release(t, held)
	release(t, <-got)
}

// A message wakes one waiter of each process, and one that was woken and fails passes the message on. If it woke all
// waiters, the seven releases here would wake 21.
func TestRLockWakesOneOfEachProcess(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	c := client(t, s.Addr)
	p, through := wired(t, s.Addr)
	locks := []lock.Locker{open(t, "rlock", c, time.Hour), open(t, "rlock", through, time.Hour)}
	held := acquire(t, locks[0], "k")
	var woken, failed atomic.Int64
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			o := lock.Options{OnWake: func() { woken.Add(1) }}
			lease, err := locks[i%2].Acquire(t.Context(), "k", o)
			switch {
			case errors.Is(err, lock.ErrDown):
				failed.Add(1)
			case err != nil:
				t.Error(err)
			default:
				release(t, lease)
			}
		})
	}
	eventually(t, "both processes wait", subscribed(t, c, "k", 2))
	time.Sleep(300 * time.Millisecond) // all of them come, and ask once more; if not, the test is only weaker
	p.Set(wire.Trap{On: wire.ToServer, Do: wire.Cut, Match: wire.Contains("{k}")})
	release(t, held)
	all.Wait()
	if got := woken.Load(); got < 1 || got > 14 || failed.Load() != 1 {
		t.Errorf("%d wake-ups for 7 releases and 2 processes, %d requests cut off", got, failed.Load())
	}
}

// A subscription that breaks costs nobody the rest of the holder's lease: what is released before it stands again is
// not heard, so all who wait ask when it does. When nobody waits any more, the subscription ends with the next release.
func TestRLockSubscribesAnew(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	c := client(t, s.Addr)
	p, through := wired(t, s.Addr)
	held := acquire(t, open(t, "rlock", c, time.Hour), "k")
	l := open(t, "rlock", through, time.Hour)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx, "k", lock.Options{})
		left <- err
	}()
	eventually(t, "one waits", subscribed(t, c, "k", 1))
	got := acquireLater(t, l, "k")
	leave() // who went away is not woken in place of who still waits
	<-left
	anew := p.Set(wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: wire.Contains("subscribe")})
	c.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
	<-anew.Sprung()
	release(t, held)
	anew.Release()
	release(t, <-got)
	eventually(t, "it listens no more", func() bool { _ = try(t, l, "k"); return subscribed(t, c, "k", 0)() })
}

// A key that is deleted or taken under a holder that renews is noticed at the next renewal, and its release leaves
// alone what another has.
func TestTheHolderNotices(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	c := client(t, s.Addr)
	w := open(t, "watchdog", c, 1500*time.Millisecond)
	gone, taken := acquire(t, w, "gone"), acquire(t, w, "taken")
	c.Del(t.Context(), "watchdog:{gone}") // as by an eviction, or FLUSHALL
	c.Set(t.Context(), "watchdog:{taken}", "other", 0)
	if err := loss(t, gone); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("gone: %v", err)
	}
	if err := loss(t, taken); !errors.Is(err, lock.ErrTaken) {
		t.Errorf("taken: %v", err)
	}
	if _ = taken.Release(); c.Get(t.Context(), "watchdog:{taken}").Val() != "other" {
		t.Error("the release took another's key")
	}
}

// A release whose message is refused is a release.
func TestAReleaseThatMayNotPublish(t *testing.T) {
	t.Parallel()
	addr := servers.Redis(t).Addr
	err := client(t, addr).Do(t.Context(), "ACL", "SETUSER", "quiet", "on", ">pw", "~*", "+@all", "resetchannels").Err()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"watchdog", "rlock"} {
		l := open(t, name, closer(t, dialAs("quiet", addr)), time.Hour)
		for range 2 {
			release(t, acquire(t, l, t.Name()))
		}
	}
}
