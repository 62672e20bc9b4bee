package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

const ttl = 30 * time.Second

// keep runs KeepAlive in a bubble and returns when and why it ended, and when it renewed.
func keep(
	t *testing.T,
	k Renewal,
	answers func(n int) error,
	during func(release, retire context.CancelFunc),
) (ended time.Duration, renewed []time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		held, release := context.WithCancel(t.Context())
		renewing, retire := context.WithCancel(held)
		defer release()
		defer retire()
		sent := time.Now()
		k.Renew = func(context.Context) error {
			renewed = append(renewed, time.Since(sent))
			return answers(len(renewed))
		}
		done := make(chan struct{})
		go func() {
			keepAlive(held, renewing, sent, k, func(term) {}, func(reason error) {
				err = reason
				release()
			})
			ended = time.Since(sent)
			close(done)
		}()
		if during != nil {
			during(release, retire)
		}
		<-done
	})
	return ended, renewed, err
}

func always(err error) func(int) error { return func(int) error { return err } }

func TestKeepAlive(t *testing.T) {
	broken := errors.New("connection reset")
	for _, row := range []struct {
		rule     string
		keep     Renewal
		answers  func(int) error
		during   func(release, retire context.CancelFunc)
		ended    time.Duration
		err      error
		renewals int
	}{
		{
			"a lease that is never renewed is lost before the server ends it",
			Renewal{TTL: ttl},
			nil, nil, Valid(ttl), ErrExpired, 0,
		},
		{
			"a released lease ends without a reason",
			Renewal{TTL: ttl},
			nil, func(release, _ context.CancelFunc) { time.Sleep(time.Second); release() }, time.Second, nil, 0,
		},
		{
			"a renewed lease outlives its TTL, and is renewed every third of it",
			Renewal{TTL: ttl, Every: ttl / 3},
			always(nil),
			func(release, _ context.CancelFunc) { time.Sleep(95 * time.Second); release() }, 95 * time.Second, nil, 9,
		},
		{
			"the server says that the key is gone: lost at once, not at the time limit",
			Renewal{TTL: ttl, Every: ttl / 3},
			always(ErrExpired), nil, 10 * time.Second, ErrExpired, 1,
		},
		{
			"the server names another owner: lost at once",
			Renewal{TTL: ttl, Every: ttl / 3},
			always(ErrTaken), nil, 10 * time.Second, ErrTaken, 1,
		},
		{
			"renewals that fail are retried ten times as often, and the time limit stays where the last success put it",
			Renewal{TTL: ttl, Every: ttl / 3},
			always(broken), nil, Valid(ttl), ErrExpired, 20,
		},
		{
			"one renewal that fails does not lose the lease",
			Renewal{TTL: ttl, Every: ttl / 3},
			func(n int) error {
				if n == 2 {
					return broken
				}
				return nil
			},
			func(release, _ context.CancelFunc) { time.Sleep(60 * time.Second); release() }, 60 * time.Second, nil, 6,
		},
		{
			"a hung holder does not hold for ever: renewal ends at the maximum",
			Renewal{TTL: ttl, Every: ttl / 3, Max: time.Minute + time.Second},
			always(nil), nil, time.Minute + time.Second, ErrExpired, 6,
		},
		{
			"work that was told to stop is not renewed any more, and its lease runs out",
			Renewal{TTL: ttl, Every: ttl / 3},
			always(nil),
			func(_, retire context.CancelFunc) { time.Sleep(15 * time.Second); retire() },
			10*time.Second + Valid(ttl), ErrExpired, 1,
		},
	} {
		t.Run(row.rule, func(t *testing.T) {
			ended, renewed, err := keep(t, row.keep, row.answers, row.during)
			if ended != row.ended {
				t.Errorf("ended after %v, want %v", ended, row.ended)
			}
			if !errors.Is(err, row.err) || (row.err == nil) != (err == nil) {
				t.Errorf("err = %v, want %v", err, row.err)
			}
			if len(renewed) != row.renewals {
				t.Errorf("renewed at %v, want %d times", renewed, row.renewals)
			}
		})
	}
}

// A renewal whose reply does not come is given up in time for another, and counts from when it was sent.
func TestKeepAliveHungRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, release := context.WithCancel(t.Context())
		sent := time.Now()
		calls := 0
		k := Renewal{TTL: ttl, Every: ttl / 3, Renew: func(ctx context.Context) error {
			if calls++; calls == 1 {
				<-ctx.Done() // a connection that hangs
				return ctx.Err()
			}
			return nil
		}}
		done := make(chan struct{})
		go func() {
			keepAlive(held, held, sent, k, func(term) {}, func(err error) { t.Errorf("lost: %v", err) })
			close(done)
		}()
		time.Sleep(45 * time.Second)
		release()
		<-done
		if calls < 2 {
			t.Errorf("renewed %d times, want another try after the one that hung", calls)
		}
	})
}
