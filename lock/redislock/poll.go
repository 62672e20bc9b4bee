package redislock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"example.com/stock/lock"
)

// poll tries until there is a lease, ctx ends, or a try fails for another reason than that the key is held. Between tries it
// sleeps for what pause says. A ctx with NoWait has one try.
func poll(ctx context.Context, pause func() time.Duration, try func() (*lock.Lease, error)) (*lock.Lease, error) {
	var held error // what the last answer was
	for {
		lease, err := try()
		if err == nil {
			return lease, nil
		}
		if !errors.Is(err, lock.ErrHeld) {
			return nil, errors.Join(held, err)
		}
		held = err
		if lock.IsNoWait(ctx) {
			return nil, held
		}
		if !sleep(ctx, pause()) {
			return nil, errors.Join(held, context.Cause(ctx))
		}
	}
}

// backoff makes pauses that double from least to most, each drawn at random between half and all of it.
func backoff(least, most time.Duration) func() time.Duration {
	next := least
	return func() time.Duration {
		pause := next
		next = min(2*next, most)
		return pause/2 + rand.N(pause/2+1)
	}
}

// sleep pauses for d; false means that ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
