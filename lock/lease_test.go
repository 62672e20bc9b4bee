package lock

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// kept runs a lease in a bubble, with what it does in between, and returns when it was renewed and when it ended,
// if it did.
func kept(t *testing.T, k Renewal, during func(*Lease)) (renewed []time.Duration, ended time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		k.Renew = func(context.Context) error {
			renewed = append(renewed, time.Since(began))
			return nil
		}
		l, _ := NewLease("key", NoFence, func(context.Context) error { return nil })
		stop := context.AfterFunc(l.held, func() { ended = time.Since(began) })
		defer stop()
		l.KeepAlive(began, k)
		during(l)
		synctest.Wait()
		err = l.Err()
		if l.Release() != nil && !errors.Is(err, ErrLost) {
			t.Error("the release fails")
		}
		synctest.Wait()
	})
	return renewed, ended, err
}

func TestALeaseHasNoGoroutineBeforeOneIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		l, _ := NewLease("key", NoFence, func(context.Context) error { return nil })
		l.KeepAlive(
			time.Now(),
			Renewal{TTL: ttl, Every: ttl / 3, Max: time.Hour, Renew: func(context.Context) error { return nil }},
		)
		time.Sleep(ttl/3 - time.Nanosecond)
		synctest.Wait()
		if now := runtime.NumGoroutine(); now > before {
			t.Errorf("%d goroutines, %d before", now, before)
		}
		_ = l.Release()
	})
}

func TestKeptLeases(t *testing.T) {
	sleep := func(d time.Duration) func(*Lease) { return func(*Lease) { time.Sleep(d) } }
	for _, row := range []struct {
		rule     string
		keep     Renewal
		during   func(*Lease)
		renewals int
		ended    time.Duration // of a loss
	}{
		{"it is renewed when a third has passed, and goes on", Renewal{TTL: ttl, Every: ttl / 3}, sleep(ttl), 3, 0},
		{"it is never renewed, and lost", Renewal{TTL: ttl}, sleep(ttl), 0, Valid(ttl)},
		{"the first renewal of a grant is due after a " +
			"third of that", Renewal{TTL: ttl, Every: ttl / 3, First: 3 * time.Second}, sleep(2 * time.Second), 1, 0},
		{"the longest hold ends before the " +
			"first renewal", Renewal{TTL: ttl, Every: ttl / 3, Max: time.Second}, sleep(ttl), 0, time.Second},
		{
			"it is not to be renewed before the first renewal was due",
			Renewal{TTL: ttl, Every: ttl / 3},
			func(l *Lease) { l.stopRenewing(); time.Sleep(ttl) },
			0, Valid(ttl),
		},
	} {
		t.Run(row.rule, func(t *testing.T) {
			renewed, ended, err := kept(t, row.keep, row.during)
			if len(renewed) != row.renewals {
				t.Errorf("renewed at %v, want %d times", renewed, row.renewals)
			}
			if lost := errors.Is(err, ErrLost); lost != (row.ended > 0) || lost && ended != row.ended {
				t.Errorf("ended after %v with %v, want a loss after %v", ended, err, row.ended)
			}
		})
	}
}

// A release that comes in the middle of a renewal ends it and waits for it: no renewal may reach the server after
// the key was freed, or was left to run out.
func TestTheEndWaitsForARenewal(t *testing.T) {
	for want, end := range map[string]func(*Lease){
		"renewed, freed": func(l *Lease) { _ = l.Release() }, "renewed": (*Lease).Abandon,
	} {
		synctest.Test(t, func(t *testing.T) {
			var order []string
			l, _ := NewLease("key", NoFence, func(context.Context) error {
				order = append(order, "freed")
				return nil
			})
			l.KeepAlive(time.Now(), Renewal{TTL: ttl, Every: ttl / 3, Renew: func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(ReleaseTimeout / 4)
				order = append(order, "renewed")
				return ctx.Err()
			}})
			time.Sleep(ttl/3 + time.Second)
			end(l)
			if got := strings.Join(order, ", "); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// A client may ignore its ctx and wait for as long as its own settings say. Neither the loss nor the release waits for
// it.
func TestARenewalThatIgnoresItsContextDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		defer close(answer)
		freed := false
		l, _ := NewLease("key", NoFence, func(ctx context.Context) error {
			freed = ctx.Err() == nil
			return nil
		})
		sent := time.Now()
		l.KeepAlive(sent, Renewal{TTL: ttl, Every: ttl / 3, Renew: func(context.Context) error {
			if time.Since(sent) < ttl/2 {
				return nil
			}
			<-answer
			return nil
		}})
		select {
		case <-l.Done():
		case <-time.After(time.Hour):
			t.Fatal("no loss was signalled")
		}
		if took := time.Since(sent); took != ttl/3+Valid(ttl) || !errors.Is(l.Err(), ErrExpired) {
			t.Errorf("%v after %v, want ErrExpired after %v", l.Err(), took, ttl/3+Valid(ttl))
		}
		over := time.Now()
		if err := l.Release(); !errors.Is(err, ErrLost) || !freed || time.Since(over) > ReleaseTimeout {
			t.Errorf("release: %v after %v, freed: %v", err, time.Since(over), freed)
		}
	})
}

// A loss that free found is told once: not as the loss of a loss.
func TestALossIsToldOnce(t *testing.T) {
	told := &LostError{"k", ErrExpired}
	l, _ := NewLease("k", NoFence, func(context.Context) error { return told })
	if err := l.Release(); err != error(told) {
		t.Errorf("%v, want %v as it is", err, told)
	}
}
