package redislock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
)

// variants are the locks that people write by hand: name, round trips of acquire and release, and how to open one.
var variants = []struct {
	name             string
	acquire, release int64
	open             func(t testing.TB, c redis.UniversalClient, o redislock.SetNXOptions) lock.Locker
}{
	{"setnx-expire", 2, 1, func(t testing.TB, c redis.UniversalClient, o redislock.SetNXOptions) lock.Locker {
		return closer(t, redislock.NewSetNXExpire(c, redislock.SetNXExpireOptions{SetNXOptions: o}))
	}},
	{"setnx-del", 1, 1, func(t testing.TB, c redis.UniversalClient, o redislock.SetNXOptions) lock.Locker {
		return closer(t, redislock.NewSetNXDel(c, o))
	}},
	{"setnx-watch", 1, 4, func(t testing.TB, c redis.UniversalClient, o redislock.SetNXOptions) lock.Locker {
		return closer(t, redislock.NewSetNXWatch(c, o))
	}},
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

func TestVariantsTakeTheirRoundTrips(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c := client(t, s)
			l := v.open(t, c, redislock.SetNXOptions{})
			key := locktest.FreshKey()
			if err := acquire(t, l, key).Release(); err != nil { // connects and loads the scripts
				t.Fatal(err)
			}
			count := new(tripCounter)
			c.AddHook(count)
			lease := acquire(t, l, key)
			if got := count.n.Swap(0); got != v.acquire {
				t.Errorf("an acquisition took %d round trips, want %d", got, v.acquire)
			}
			if _, err := l.Acquire(t.Context(), key, lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
				t.Error(err)
			}
			if got := count.n.Swap(0); got != 1 {
				t.Errorf("a try in vain took %d round trips, want 1", got)
			}
			if err := lease.Release(); err != nil {
				t.Error(err)
			}
			if got := count.n.Load(); got != v.release {
				t.Errorf("a release took %d round trips, want %d", got, v.release)
			}
		})
	}
}

func TestVariantsNameTheHolder(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			l, key := v.open(t, client(t, s), redislock.SetNXOptions{}), locktest.FreshKey()
			lease, err := l.Acquire(t.Context(), key, lock.Options{Owner: "app-1/request-7"})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = lease.Release() }()
			if lease.Fence() != lock.NoFence {
				t.Errorf("fence %d, from a lock that has none", lease.Fence())
			}
			_, err = l.Acquire(t.Context(), key, lock.Options{TryOnce: true})
			var held *lock.HeldError
			if !errors.As(err, &held) || held.Holder != "app-1/request-7" || held.Remaining <= 0 ||
				held.Remaining > 10*time.Second {
				t.Errorf("err = %+v, want the holder and what remains", err)
			}
		})
	}
}

// A key of another type, and a server that refuses to write, are named.
func TestVariantsNameTheFix(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			s := stacktest.Redis(t)
			c := client(t, s)
			l, ctx := v.open(t, c, redislock.SetNXOptions{}), t.Context()
			c.RPush(ctx, v.name+":{list}", "x")
			if _, err := l.Acquire(ctx, "list", lock.Options{TryOnce: true}); !mentions(err, v.name+":{list}") ||
				errors.Is(err, lock.ErrHeld) {
				t.Errorf("a key of another type: %v, want an error that names it", err)
			}
			c.ConfigSet(ctx, "maxmemory", "1")
			if _, err := l.Acquire(ctx, "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrDown) ||
				!mentions(err, "memory") {
				t.Errorf("out of memory: %v, want ErrDown and the reason", err)
			}
			c.Do(ctx, "REPLICAOF", "127.0.0.1", "1")
			if _, err := l.Acquire(ctx, "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrDown) ||
				!mentions(err, "replica") {
				t.Errorf("a read-only replica: %v, want ErrDown and the reason", err)
			}
		})
	}
}

var errCrash = errors.New("crashed")

// A holder that dies between SETNX and PEXPIRE blocks everybody for ever. A contender that repairs ends that, but
// not at once.
func TestACrashBetweenTheTwoCommands(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	o := redislock.SetNXOptions{Lease: 150 * time.Millisecond}
	const after = 200 * time.Millisecond
	for name, repair := range map[string]bool{"blocks for ever": false, "is repaired": true} {
		t.Run(name, func(t *testing.T) {
			key, c := locktest.FreshKey(), client(t, s)
			crashing := closer(t, redislock.NewSetNXExpire(c, redislock.SetNXExpireOptions{
				SetNXOptions: o, Between: func(context.Context) error { return errCrash },
			}))
			if _, err := crashing.Acquire(t.Context(), key, lock.Options{}); !errors.Is(err, errCrash) {
				t.Fatalf("err = %v, want the crash", err)
			}
			if ttl := c.PTTL(t.Context(), "setnx-expire:{"+key+"}").Val(); ttl != -1 {
				t.Fatalf("PTTL = %v, want -1", ttl)
			}
			l := closer(
				t,
				redislock.NewSetNXExpire(
					c, redislock.SetNXExpireOptions{SetNXOptions: o, Repair: repair, RepairAfter: after},
				),
			)
			began := time.Now()
			wait, cancel := context.WithTimeout(t.Context(), patience)
			if !repair {
				cancel()
				wait, cancel = context.WithTimeout(t.Context(), 5*o.Lease)
			}
			defer cancel()
			lease, err := l.Acquire(wait, key, lock.Options{})
			switch {
			case !repair && !errors.Is(err, lock.ErrHeld):
				t.Errorf("without repair: err = %v, want ErrHeld", err)
			case repair && err != nil:
				t.Errorf("with repair: %v", err)
			case repair && time.Since(began) < after+o.Lease:
				t.Errorf("repaired within %v: a living holder would have been entered", time.Since(began))
			}
			if err == nil {
				_ = lease.Release()
			}
		})
	}
}

// A holder that was paused between its commands, until a repair let another in, does not hold beside it.
func TestAHolderPausedBetweenTheTwoCommands(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	key, c := locktest.FreshKey(), client(t, s)
	o := redislock.SetNXOptions{Lease: 3 * time.Second}
	paused, goOn := make(chan struct{}), make(chan struct{})
	slow := closer(t, redislock.NewSetNXExpire(c, redislock.SetNXExpireOptions{
		SetNXOptions: o, Between: func(context.Context) error { close(paused); <-goOn; return nil },
	}))
	got := make(chan error, 1)
	go func() {
		_, err := slow.Acquire(t.Context(), key, lock.Options{TryOnce: true})
		got <- err
	}()
	<-paused
	next := acquire(t, closer(t, redislock.NewSetNXExpire(c, redislock.SetNXExpireOptions{
		SetNXOptions: o, Repair: true, RepairAfter: 20 * time.Millisecond,
	})), key)
	close(goOn)
	if err := <-got; !errors.Is(err, lock.ErrHeld) {
		t.Errorf("the paused holder: %v, want ErrHeld", err)
	}
	if next.Err() != nil || c.Exists(t.Context(), "setnx-expire:{"+key+"}").Val() != 1 {
		t.Errorf("the next holder lost its key (%v)", next.Err())
	}
}

// Several holders that are seen between their commands, one after the other, are not a crashed one.
func TestOnlyTheSameHolderIsSuspect(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	key, c := locktest.FreshKey(), client(t, s)
	name := "setnx-expire:{" + key + "}"
	const after = 150 * time.Millisecond
	l := closer(t, redislock.NewSetNXExpire(c, redislock.SetNXExpireOptions{Repair: true, RepairAfter: after}))
	look := func() time.Duration {
		if _, err := l.Acquire(t.Context(), key, lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
			t.Fatalf("err = %v, want ErrHeld", err)
		}
		return c.PTTL(t.Context(), name).Val()
	}
	for _, holder := range []string{"one", "two", "three"} {
		c.Set(t.Context(), name, holder, 0)
		if ttl := look(); ttl != -1 {
			t.Fatalf("%s was repaired at once: PTTL = %v", holder, ttl)
		}
		time.Sleep(after + after/3) // the time that must pass is what is tested
	}
	if ttl := look(); ttl <= 0 {
		t.Errorf("a holder that was seen twice was not repaired: PTTL = %v", ttl)
	}
	c.Del(t.Context(), name)
}

// beforeExec does something between the GET and the transaction of a release, once.
type beforeExec struct {
	tripCounter
	do    func()
	execs int
}

func (b *beforeExec) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "del" && cmds[len(cmds)-1].Name() == "exec" {
			if b.execs++; b.execs == 1 {
				b.do()
			}
		}
		return next(ctx, cmds)
	}
}

// A change between the look and the deletion is noticed: GET and DEL without WATCH would delete another's key here.
func TestWatchNoticesWhatComesBetween(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	remove := func(c redis.UniversalClient, name string) { c.Del(t.Context(), name) }
	touch := func(c redis.UniversalClient, name string) { c.PExpire(t.Context(), name, time.Minute) }
	for what, row := range map[string]struct {
		do    func(c redis.UniversalClient, name string)
		want  error
		execs int
		left  int64
	}{
		"another took it": {
			func(c redis.UniversalClient, name string) {
				c.Del(t.Context(), name)
				c.SetNX(t.Context(), name, "other", time.Minute)
			}, lock.ErrTaken, 1, 1,
		},
		"it ran out":                {remove, lock.ErrExpired, 1, 0},
		"touched, but ours as ever": {touch, nil, 2, 0},
		"nothing":                   {func(redis.UniversalClient, string) {}, nil, 1, 0},
	} {
		t.Run(what, func(t *testing.T) {
			var name string
			var hook *beforeExec
			c, other := client(t, s), client(t, s)
			err := lock.ErrDown
			for errors.Is(err, lock.ErrDown) { // a busy computer may not release within a second
				key := locktest.FreshKey()
				name = "setnx-watch:{" + key + "}"
				through := client(t, s)
				hook = &beforeExec{do: func() { row.do(other, name) }}
				through.AddHook(hook)
				err = acquire(t, closer(t, redislock.NewSetNXWatch(through, redislock.SetNXOptions{})), key).Release()
			}
			if !errors.Is(err, row.want) {
				t.Errorf("release: %v, want %v", err, row.want)
			}
			if hook.execs != row.execs {
				t.Errorf("%d transactions, want %d", hook.execs, row.execs)
			}
			if left := c.Exists(t.Context(), name).Val(); left != row.left {
				t.Errorf("%d keys left, want %d", left, row.left)
			}
		})
	}
}
