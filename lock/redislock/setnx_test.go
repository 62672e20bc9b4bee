package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/lock/redislock"
)

func repairing(t *testing.T, c redis.UniversalClient, lease time.Duration) lock.Locker {
	return closer(t, redislock.NewSetNXExpire(c, redislock.SetNXExpireOptions{
		SetNXOptions: redislock.SetNXOptions{Lease: lease}, Repair: true,
	}))
}

// What a holder that crashed between SETNX and PEXPIRE leaves is repaired, but only when the same holder has been seen
// without an expiry for a second: several holders that are seen so one after the other have not crashed.
func TestOnlyTheSameHolderIsSuspect(t *testing.T) {
	t.Parallel()
	c, key := client(t, servers.Redis(t).Addr), locktest.FreshKey()
	l, name := repairing(t, c, 0), "setnx-expire:{"+key+"}"
	for _, holder := range []string{"one", "two", "three", "three"} {
		c.Set(t.Context(), name, holder, 0)
		_ = try(t, l, key)
		if holder != "three" && c.PTTL(t.Context(), name).Val() != -1 {
			t.Errorf("%s was repaired when it was seen for the first time", holder)
		}
		time.Sleep(1100 * time.Millisecond) // the time that must pass is what is tested
	}
	if c.PTTL(t.Context(), name).Val() < 0 {
		t.Error("a holder that was seen twice was not repaired")
	}
}

// A holder that was paused between its commands, until a repair let another in, does not hold beside it.
func TestAHolderPausedBetweenTheTwoCommands(t *testing.T) {
	t.Parallel()
	s, key := servers.Redis(t), locktest.FreshKey()
	const lease = time.Second
	p, through := wired(t, s.Addr)
	expire := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("pexpire"), Do: wire.Hold})
	slow := open(t, "setnx-expire", through, lease)
	got := make(chan error, 1)
	go func() { got <- try(t, slow, key) }()
	<-expire.Sprung()
	next := acquire(t, repairing(t, client(t, s.Addr), lease), key)
	expire.Release()
	if err := <-got; !errors.Is(err, lock.ErrHeld) {
		t.Errorf("the paused holder: %v, want ErrHeld", err)
	}
	if err := next.Release(); errors.Is(err, lock.ErrTaken) {
		t.Errorf("the next holder lost its key to the paused one: %v", err)
	}
}

// beforeExec does something between the GET and the transaction of a release, once.
type beforeExec struct {
	tripCounter
	do    func()
	execs int
}

func (b *beforeExec) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "del" {
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
	addr := servers.Redis(t).Addr
	other := client(t, addr)
	for what, row := range map[string]struct {
		do    func(name string)
		want  error
		execs int
		left  bool
	}{
		"another took it": {
			func(name string) { other.Set(t.Context(), name, "x", patience) }, lock.ErrTaken, 1, true,
		},
		"it ran out":                {func(name string) { other.Del(t.Context(), name) }, lock.ErrExpired, 1, false},
		"touched, but ours as ever": {func(name string) { other.PExpire(t.Context(), name, patience) }, nil, 2, false},
	} {
		t.Run(what, func(t *testing.T) {
			key, through := locktest.FreshKey(), client(t, addr)
			name := "setnx-watch:{" + key + "}"
			hook := &beforeExec{do: func() { row.do(name) }}
			through.AddHook(hook)
			err := acquire(t, open(t, "setnx-watch", through, 0), key).Release()
			if !errors.Is(err, row.want) || hook.execs != row.execs || exists(t, other, name) != row.left {
				t.Errorf("%v, %d transactions, %v left; want %v, %d, %v",
					err, hook.execs, exists(t, other, name), row.want, row.execs, row.left)
			}
		})
	}
}
