package lock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a holder may believe of a grant is less than the grant by exactly so much.
func TestValid(t *testing.T) {
	for granted, want := range map[time.Duration]time.Duration{
		ttl:                    29*time.Second + 698*time.Millisecond,
		time.Second:            988 * time.Millisecond,
		100 * time.Millisecond: 97 * time.Millisecond,
	} {
		if got := Valid(granted); got != want {
			t.Errorf("of %v %v are believed, want %v", granted, got, want)
		}
	}
}

// A leased row is a lease whose reply came late, and whose n-th renewal is answered so. The lease ends by during, or by
// a loss if there is none.
type leased struct {
	rule    string
	late    time.Duration
	keep    Renewal
	answers func(ctx context.Context, n int) error
	during  func(*Lease)
	renewed string // when, in seconds
	ended   time.Duration
	err     error // of the loss; nil: it was released
}

func (row leased) check(t *testing.T) {
	began, n := time.Now(), 0
	var renewed []string
	row.keep.TTL = ttl
	row.keep.Renew = func(ctx context.Context) error {
		n++
		renewed = append(renewed, fmt.Sprint(time.Since(began).Seconds()))
		return row.answers(ctx, n)
	}
	time.Sleep(row.late)
	l, _ := NewLease("key", NoFence, func(context.Context) error { return nil })
	l.KeepAlive(began, row.keep)
	if row.during != nil {
		row.during(l)
	}
	<-l.Done()
	ended, until := time.Since(began), l.Until().Sub(began)
	err := l.Err()
	if freed := l.Release(); row.err == nil && freed != nil {
		t.Errorf("release: %v", freed)
	}
	if ended != row.ended || row.err != nil && !errors.Is(err, row.err) || errors.Is(err, ErrLost) != (row.err != nil) {
		t.Errorf("ended after %v with %v, want %v, %v", ended, err, row.ended, row.err)
	}
	if _, byClock := errors.AsType[*ExpiredError](err); byClock && until != ended {
		t.Errorf("it was to last until %v, and ended after %v", until, ended)
	}
	time.Sleep(ttl) // a renewal that ignores its ctx may still be under way
	synctest.Wait()
	if got := strings.Join(renewed, " "); got != row.renewed {
		t.Errorf("renewed at %s, want %s", got, row.renewed)
	}
}

// each is the times from one to another, a step apart.
func each(from, to, step int) string {
	var all []string
	for at := from; at <= to; at += step {
		all = append(all, fmt.Sprint(at))
	}
	return strings.Join(all, " ")
}

func TestLeases(t *testing.T) {
	const third = ttl / 3
	broken := errors.New("connection reset")
	always := func(err error) func(context.Context, int) error {
		return func(context.Context, int) error { return err }
	}
	releaseAt := func(d time.Duration) func(*Lease) {
		return func(l *Lease) { time.Sleep(d); _ = l.Release() }
	}
	retireAt := func(d time.Duration) func(*Lease) {
		return func(l *Lease) { time.Sleep(d); l.stopRenewing() }
	}
	once := func(n int, takes time.Duration, err, others error) func(context.Context, int) error {
		return func(_ context.Context, i int) error {
			if i != n {
				return others
			}
			time.Sleep(takes)
			return err
		}
	}
	hangs := func(ctx context.Context, n int) error {
		if n == 1 {
			<-ctx.Done()
		}
		return ctx.Err()
	}
	every, short := Renewal{Every: third}, Renewal{Every: third, First: 3 * time.Second}
	for _, row := range []leased{
		{"never renewed", 0, Renewal{}, nil, nil, "", Valid(ttl), ErrExpired},
		{"it counts from before its request", 2 * time.Second, Renewal{}, nil, nil, "", Valid(ttl), ErrExpired},
		{"released", 0, Renewal{}, nil, releaseAt(time.Second), "", time.Second, nil},
		{"renewed", 0, every, always(nil), releaseAt(95 * time.Second), each(10, 90, 10), 95 * time.Second, nil},
		{"gone at the server", 0, every, always(ErrExpired), nil, "10", third, ErrExpired},
		{"another has it", 0, every, always(ErrTaken), nil, "10", third, ErrTaken},
		{
			"failures are retried ten times as often, and the limit stays", 0,
			every, always(broken), nil, each(10, 29, 1), Valid(ttl), ErrExpired,
		},
		{
			"one failure is no loss", 0,
			every, once(2, 0, broken, nil), releaseAt(time.Minute), "10 20 21 31 41 51", time.Minute, nil,
		},
		{
			"a hung holder does not hold for ever", 0,
			Renewal{Every: third, Max: 61 * time.Second},
			always(nil), nil, each(10, 60, 10), 61 * time.Second, ErrExpired,
		},
		{
			"the longest hold ends before the first renewal", 0,
			Renewal{Every: third, Max: time.Second},
			always(nil), nil, "", time.Second, ErrExpired,
		},
		{
			"work that was told to stop is not renewed", 0,
			every, always(nil), retireAt(15 * time.Second), "10", third + Valid(ttl), ErrExpired,
		},
		{"nor before the first renewal", 0, every, always(nil), retireAt(0), "", Valid(ttl), ErrExpired},
		{
			"a slow renewal counts from its request", 0,
			every, once(1, 8*time.Second, nil, broken), nil, "10 " + each(20, 39, 1), third + Valid(ttl), ErrExpired,
		},
		{
			"a slow failure is retried when it is known", 0,
			every, once(1, 8*time.Second, broken, broken), nil, "10 " + each(19, 29, 1), Valid(ttl), ErrExpired,
		},
		{
			"a renewal that hangs is given up", 0, every, hangs, releaseAt(45 * time.Second), "10 21 31 41",
			45 * time.Second, nil,
		},
		{
			"a short first grant is all there is until it is renewed", 0,
			short, always(broken), nil, "1 2", Valid(3 * time.Second), ErrExpired,
		},
		{
			"once renewed it is as long as others", 0,
			short, once(1, 0, nil, broken), nil, "1 " + each(11, 30, 1), time.Second + Valid(ttl), ErrExpired,
		},
		{
			"what a renewal finds after the release is no loss", 0,
			every, once(1, 5*time.Second, ErrExpired, nil), releaseAt(12 * time.Second), "10",
			12*time.Second + ReleaseTimeout/2, nil, // Release has waited for it
		},
	} {
		t.Run(row.rule, func(t *testing.T) { synctest.Test(t, row.check) })
	}
}

func TestALeaseHasNoGoroutineBeforeOneIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		l, _ := NewLease("key", NoFence, func(context.Context) error { return nil })
		l.KeepAlive(time.Now(), renewed(time.Hour))
		time.Sleep(ttl/3 - time.Nanosecond)
		synctest.Wait()
		if now := runtime.NumGoroutine(); now > before {
			t.Errorf("%d goroutines, %d before", now, before)
		}
		_ = l.Release()
	})
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
			l.KeepAlive(time.Now(), renewedBy(0, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(ReleaseTimeout / 4)
				order = append(order, "renewed")
				return ctx.Err()
			}))
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
			<-ctx.Done()
			return nil
		})
		sent := time.Now()
		l.KeepAlive(sent, renewedBy(0, func(context.Context) error {
			if time.Since(sent) > ttl/2 {
				<-answer
			}
			return nil
		}))
		select {
		case <-l.Done():
		case <-time.After(time.Hour):
			t.Fatal("no loss was signalled")
		}
		if took := time.Since(sent); took != ttl/3+Valid(ttl) || !errors.Is(l.Err(), ErrExpired) {
			t.Errorf("%v after %v, want ErrExpired after %v", l.Err(), took, ttl/3+Valid(ttl))
		}
		over := time.Now()
		if err := l.Release(); !errors.Is(err, ErrLost) || !freed || time.Since(over) != ReleaseTimeout {
			t.Errorf("release: %v after %v, freed: %v", err, time.Since(over), freed)
		}
	})
}

// A release ends a renewal that heeds its ctx at once, is told to the server on a live ctx, and takes
// ReleaseTimeout at most.
func TestReleaseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := NewLease("key", NoFence, func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Error("the server could not be told: the ctx had ended")
			}
			<-ctx.Done()
			return ctx.Err()
		})
		l.KeepAlive(time.Now(), renewedBy(0, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		time.Sleep(ttl/3 + time.Second)
		began := time.Now()
		if err := l.Release(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != ReleaseTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
