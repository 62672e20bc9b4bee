package redislock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"example.com/stock/lock"
)

// poll tries until there is a lease, ctx ends, or a try fails for another reason than that the key is held. Between tries it
// sleeps for what pause says. If o says so it tries once.
func poll(ctx context.Context, o lock.Options, pause func() time.Duration, try func() (*lock.Lease, error)) (*lock.Lease, error) {
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
		if o.TryOnce {
			return nil, held
		}
		if err := lock.Sleep(ctx, pause()); err != nil {
			return nil, errors.Join(held, err)
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
