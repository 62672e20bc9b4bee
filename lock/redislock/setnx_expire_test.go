package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
)

var errCrash = errors.New("crashed")

// A holder that dies between SETNX and PEXPIRE blocks everybody for ever; a contender that repairs mends it, but not at once.
func TestACrashBetweenTheTwoCommands(t *testing.T) {
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
			l := closer(t, redislock.NewSetNXExpire(c, redislock.SetNXExpireOptions{SetNXOptions: o, Repair: repair, RepairAfter: after}))
			began := time.Now()
			wait, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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
				t.Errorf("repaired within %v: a living holder would have been robbed", time.Since(began))
			}
			if err == nil {
				_ = lease.Release()
			}
		})
	}
}

// A holder that was paused between its commands until a repair let another in does not come to hold beside it.
func TestAHolderPausedBetweenTheTwoCommands(t *testing.T) {
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

// Many holders caught between their commands, one after the other, are no crashed one.
func TestOnlyTheSameHolderIsSuspect(t *testing.T) {
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
