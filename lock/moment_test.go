package lock

import (
	"context"
	"errors"
	"slices"
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

// A renewal counts from before its request left, however long the reply takes: the server may have granted it at once.
func TestKeepAliveSlowRenewal(t *testing.T) {
	broken := errors.New("connection reset")
	for name, row := range map[string]struct {
		first   error // of the first renewal, which takes 8 s; the others fail at once
		second  time.Duration
		expires time.Duration
	}{
		"granted": {nil, 20 * time.Second, 10*time.Second + Valid(ttl)},
		"refused": {broken, 19 * time.Second, Valid(ttl)}, // a failure is retried so long after it is known
	} {
		t.Run(name, func(t *testing.T) {
			ended, renewed, err := keep(t, Renewal{TTL: ttl, Every: ttl / 3}, func(n int) error {
				if n == 1 {
					time.Sleep(8 * time.Second)
					return row.first
				}
				return broken
			}, nil)
			if ended != row.expires || !errors.Is(err, ErrExpired) {
				t.Errorf("ended after %v with %v, want %v", ended, err, row.expires)
			}
			if len(renewed) < 2 || renewed[1] != row.second {
				t.Errorf("renewed at %v, want the second time at %v", renewed, row.second)
			}
		})
	}
}

// The first grant may be shorter than those that follow. Until one of those is granted, the first is all there is.
func TestKeepAliveOfAShortFirstGrant(t *testing.T) {
	k := Renewal{TTL: ttl, Every: ttl / 3, First: 3 * time.Second}
	broken := errors.New("connection reset")
	ended, renewed, err := keep(t, k, always(broken), nil)
	if ended != Valid(k.First) || !errors.Is(err, ErrExpired) ||
		!slices.Equal(renewed, []time.Duration{time.Second, 2 * time.Second}) {
		t.Errorf("ended after %v with %v, renewed at %v; want it after %v", ended, err, renewed, Valid(k.First))
	}
	ended, renewed, _ = keep(t, k, func(n int) error {
		if n == 1 {
			return nil
		}
		return broken
	}, nil)
	if ended != time.Second+Valid(ttl) || renewed[1] != 11*time.Second {
		t.Errorf("once renewed: ended after %v, renewed at %v", ended, renewed)
	}
}

// An acquisition whose reply took 2 s leaves 2 s less.
func TestALeaseCountsFromBeforeItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := time.Now()
		time.Sleep(2 * time.Second)
		l, _ := NewLease("key", NoFence, func(context.Context) error { return nil })
		unanswered := func(context.Context) error { return errors.New("no answer") }
		l.KeepAlive(sent, Renewal{TTL: ttl, Every: ttl / 3, Renew: unanswered})
		<-l.Done()
		if err := l.Err(); !errors.Is(err, ErrExpired) || time.Since(sent) != Valid(ttl) {
			t.Errorf("%v after %v, want it after %v", err, time.Since(sent), Valid(ttl))
		}
		_ = l.Release()
	})
}

// What a renewal finds after the release is no loss.
func TestKeepAliveOfALeaseReleasedMeanwhile(t *testing.T) {
	ended, _, err := keep(t, Renewal{TTL: ttl, Every: ttl / 3}, func(int) error {
		time.Sleep(5 * time.Second)
		return ErrExpired
	}, func(release, _ context.CancelFunc) { time.Sleep(12 * time.Second); release() })
	if err != nil || ended != 15*time.Second {
		t.Errorf("%v after %v", err, ended)
	}
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
		l.KeepAlive(
			time.Now(),
			Renewal{TTL: ttl, Every: ttl / 3, Renew: func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}},
		)
		time.Sleep(ttl/3 + time.Second)
		began := time.Now()
		if err := l.Release(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != ReleaseTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A renewer holds every key, and renews it for ever.
type renewer struct{ renewed []time.Time }

func (r *renewer) Acquire(_ context.Context, key string, o Options) (*Lease, error) {
	l, _ := NewLease(key, 7, func(context.Context) error { return nil })
	l.KeepAlive(time.Now(), Renewal{TTL: ttl, Every: ttl / 3, Renew: func(context.Context) error {
		r.renewed = append(r.renewed, time.Now())
		return nil
	}})
	return l, nil
}

// Work that was told to stop and does not stop loses its lease in the end: Do stops renewing it.
func TestDoStopsRenewingForWorkThatWasToldToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &renewer{}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		err := Do(ctx, r, "k", Options{}, func(inside context.Context, _ Fence) error {
			<-inside.Done()
			if told := time.Since(began); told != 15*time.Second {
				t.Errorf("the work was told to stop after %v", told)
			}
			time.Sleep(time.Hour)
			return nil
		})
		if !errors.Is(err, ErrLost) || !errors.Is(err, ErrExpired) || len(r.renewed) != 1 {
			t.Errorf("%v, renewed at %v; want one renewal, and the loss", err, r.renewed)
		}
	})
}

// The end of the wait is not the end of the work: it goes on, and its lease is renewed.
func TestDoRenewsForWorkWhoseClientHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait, leave := context.WithCancel(t.Context())
		err := Do(t.Context(), &renewer{}, "k", Options{Wait: wait}, func(inside context.Context, _ Fence) error {
			leave()
			time.Sleep(time.Hour)
			return inside.Err()
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// comeTooLate makes the turn of the first waiter come in the moment in which its wait has ended: the waiter is woken by
// the end of its ctx, and finds the turn when it wants to leave the queue.
func comeTooLate(q *keyQueues, key string, giveUp context.CancelFunc, t turn) {
	synctest.Wait() // the waiter stands in its select
	q.mu.Lock()
	giveUp()
	if k := q.keys[key]; t == toHold {
		k.pass(time.Now())
	} else {
		k.appoint(k.first)
	}
	q.mu.Unlock()
}

// Random timing meets this moment in one of thousands of tries: here it is made.
func TestQueuePassesOnATurnThatComesAsTheWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		_ = q.Enter(t.Context(), "k", Options{})
		ctx, giveUp := context.WithCancel(t.Context())
		told := make(chan error, 1)
		go func() { told <- q.Enter(ctx, "k", Options{}) }()
		synctest.Wait()
		comeTooLate(&q.keyQueues, "k", giveUp, toHold)
		if err := <-told; !errors.Is(err, ErrHeld) || !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter was told %v", err)
		}
		if err := q.Enter(t.Context(), "k", Options{TryOnce: true}); err != nil {
			t.Errorf("nobody holds the key: %v", err)
		}
	})
}
