package redislock

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/redislock/internal/request"
)

// scripts sends the scripts of a Watchdog in all the states of a queue, and checks who has the lock after each.
func scripts(t *testing.T, c *redis.Client, holder func(step string, want *request.Attempt)) {
	w := NewWatchdog(c, WatchdogOptions{Lease: 10 * time.Minute})
	defer w.Close()
	ctx, one, two := t.Context(), w.attempt("k", lock.Options{}), w.attempt("k", lock.Options{})
	enter := func(a *request.Attempt, number uint64) { _, _, _ = w.request(ctx, a, number) }
	send := func(script request.Call) {
		t.Helper()
		if err := script.Run(ctx, c).Err(); err != nil {
			t.Error(err)
		}
	}
	enter(one, 0)
	c.RPush(ctx, one.Acquire.Keys[2], "dead:1 ") // has not asked for long
	enter(two, 1)
	holder("a second one comes", one)
	send(w.renewal(one))
	send(one.Release)
	holder("released", two)
	enter(one, 1)
	holder("the first one is back", two)
	if _, err := lock.Evict(ctx, w, "k"); err != nil {
		t.Error(err)
	}
	holder("evicted", one)
	granted := c.PTTL(ctx, one.Acquire.Keys[0]).Val()
	enter(one, 1) // finds the grant
	if left := c.PTTL(ctx, one.Acquire.Keys[0]).Val(); granted > grantLease || left <= grantLease {
		t.Errorf("a grant is for %v, and then for %v", granted, left)
	}
	enter(two, 1)
	send(two.Release)
	send(one.Release)
	holder("the only one in the queue has left it", nil)
	enter(one, 1)
	enter(two, 1)
	c.Del(ctx, one.Acquire.Keys[0])
	enter(one, 1)
	holder("the lock has run out, and the second one in the queue asks", two)
	send(two.Release)
	holder("released again", one)
	send(one.Release)
	if _, err := lock.Inspect(ctx, w, "k"); err != nil {
		t.Error(err)
	}
}

// The lock goes to the oldest living waiter, also if there is no memory left for more.
func TestTheQueue(t *testing.T) {
	t.Parallel()
	_, c := ownClient(t)
	scripts(t, c, func(step string, want *request.Attempt) {
		value := ""
		if want != nil {
			value = want.Value
		}
		if got := c.Get(t.Context(), "watchdog:{k}").Val(); got != value {
			t.Errorf("%s: %q has the lock, want %q", step, got, value)
		}
		memory := map[bool]string{true: "1", false: "0"}[step == "the first one is back"]
		c.ConfigSet(t.Context(), "maxmemory", memory)
	})
}

// A script that lacks a right writes nothing, whichever right it is. The suite tries that with the acquisitions of all
// locks, but neither with evictions nor with all states of a queue.
func TestAScriptThatIsRefusedHasWrittenNothing(t *testing.T) {
	t.Parallel()
	addr, c := ownClient(t)
	rights := servertest.NewRights(t, addr)
	c.AddHook(rights)
	// Who has the lock depends on how long the trials take: a waiter that has not asked for 5 s is dead.
	scripts(t, c, func(string, *request.Attempt) {})
	rights.Check(fenceSource, renewSource, enterSource, leaveSource, queueSource, evictSource)
}

// ownClient returns the address of a server that only this test uses, and a client of it.
func ownClient(t *testing.T) (addr string, c *redis.Client) {
	addr = servertest.Redis(t).Addr
	c = redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
	})
	t.Cleanup(func() { _ = c.Close() })
	return addr, c
}

// A grant that came in the moment of the next request is stale, and so is one that answers an earlier request. No grant
// is believed for longer than it lives. The owner's name may have lines.
func TestGrants(t *testing.T) {
	g, ok := parseGrant("p:1 me\n7\n2\n128")
	if want := (grant{"p:1 me\n7", 2, 128}); !ok || g != want {
		t.Errorf("%+v, %t; want %+v", g, ok, want)
	}
	n := &notifier{waiters: make(map[string]*waiter)}
	w := n.add("p:1 me")
	first := n.next(w)
	n.notify(grant{"p:1 me", first, 128})
	n.next(w)
	n.notify(grant{"p:1 me", first, 128})
	select {
	case fence := <-w.granted:
		t.Errorf("a new request takes the grant %d of the one before", fence)
	default:
	}
	o := WatchdogOptions{Lease: time.Minute}
	if o.keep(grantLease).First != grantLease || o.takes(lock.Valid(grantLease)/2) {
		t.Error("a grant is believed for longer than it lives")
	}
}
