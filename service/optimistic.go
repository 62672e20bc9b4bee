package service

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// maxTries is how often a sale without a lock reads and tries to write. A request that does not wait tries only once.
const maxTries = 100

// maxRetryPause limits every pause, after any number of conflicts.
const maxRetryPause = time.Second

// doublings is how often the limit of the pause doubles. With a pause of up to 64 times the length of a try, some 60
// contenders rarely conflict.
const doublings = 6

// Optimistically sells without a lock: it reads, runs the business logic, and writes if the version has not changed
// since the read. If another sale has written meanwhile, it starts over after a random
// pause, until the request's wait ends or the tries are used up. Then it fails with lock.ErrHeld, joined with
// ErrConflict or with the cause of the wait's end.
//
// Round trips: Read and Swap, so 2 on Redis and 3 on MySQL, for each try.
//
// It assumes that conflicts are rare. When c contenders read the same version, one succeeds and the work of the others
// is lost: c sales take c + (c-1) + ... + 1 tries. This is a retry storm. The pause is random between 0 and a limit
// that doubles. It reduces the storm, but does not create a queue. If contention is the rule, use a lock, or better
// [Atomically].
//
// It is not fair: a caller that has just sold may sell again at once, while earlier callers sleep, and a caller may use
// up its tries. No update is lost, even if a process is paused: there is no lease, and its write fails because the
// version has changed.
func Optimistically(ctx context.Context, store Shop, sale *Sale) error {
	wait, done := Waiting(ctx)
	defer done()
	for {
		if wait.Err() != nil {
			return errors.Join(lock.ErrHeld, context.Cause(wait))
		}
		began := time.Now()
		err := sale.attempt(ctx, swapping{store})
		if !errors.Is(err, ErrConflict) {
			return err
		}
		if sale.tries >= maxTries || sale.TryOnce {
			return fmt.Errorf("%d tries: %w: %w", sale.tries, lock.ErrHeld, err)
		}
		most := max(retryPause(sale.tries, time.Since(began)), 1)
		_ = driver.Sleep(wait, rand.N(most)) // the end of wait is seen above
	}
}

// retryPause returns the limit of the pause after this number of conflicts. took is the duration of the last try.
func retryPause(conflicts int, took time.Duration) time.Duration {
	return min(took<<min(conflicts-1, doublings), maxRetryPause)
}

func (s *Sale) attempt(ctx context.Context, store Store) error {
	ctx, cancel := s.enter(ctx, lock.NoFence, s.queueBound())
	defer cancel()
	defer s.leave()
	s.tries++
	if err := s.begin(ctx); err != nil {
		return err
	}
	return readThinkWrite(ctx, store, s)
}

// swapping is a Store whose Write calls Swap.
type swapping struct{ Shop }

func (s swapping) Write(ctx context.Context, o Order) error { return s.Swap(ctx, o) }
