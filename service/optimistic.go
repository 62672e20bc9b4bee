package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"example.com/stock/lock"
)

// OptimisticOptions limit the tries of [Optimistically]. The zero value means the defaults.
type OptimisticOptions struct {
	// Tries is how often a sale reads and tries to write; 0: 100. A request that does not wait tries only once.
	Tries int
	// Pause is the longest pause after the first conflict; 0: as long as the try took. It doubles with every conflict.
	Pause time.Duration
	// MaxPause is the longest pause of all; 0: 1 s.
	MaxPause time.Duration
}

// doublings is how often the pause doubles. At 64 times the length of a try, some 60 contenders rarely meet.
const doublings = 6

// Optimistically sells without a lock from a store that is a [Swapper]: it reads, thinks, and writes if the version
// is still the one that it read. If another sale has written meanwhile, it starts over after a random pause, until
// the request's wait ends or the tries are used up. Then it fails with lock.ErrHeld, joined with ErrConflict or with
// the cause of the end of the wait.
//
// Round trips: Read and Swap, so 2 on Redis and 3 on MySQL, for each try.
//
// It assumes that conflicts are rare. When c contenders read the same version, one succeeds and the work of the
// others is lost: c sales take c + (c-1) + ... + 1 tries. That is the retry storm. The pause, which is uniform
// between nothing and a bound that doubles, reduces the storm, but does not make it a queue. If contention is the
// rule, use a lock, or better [Atomically].
//
// Fairness: none. A caller that has just sold may start at once, while earlier callers sleep, and a caller may use up
// its tries. No sale is lost: there is no lease, and a process that was paused finds that the version has changed.
func Optimistically(o OptimisticOptions) Seller {
	o.Tries = cmp.Or(o.Tries, 100)
	o.MaxPause = cmp.Or(o.MaxPause, time.Second)
	return func(ctx context.Context, store Store, sale *Sale) error {
		swapper, err := Capability[Swapper](store)
		if err != nil {
			return err
		}
		wait := WaitOf(ctx)
		for {
			if wait.Err() != nil {
				return errors.Join(lock.ErrHeld, context.Cause(wait))
			}
			began := time.Now()
			err = sale.attempt(ctx, swapping{store, swapper})
			if !errors.Is(err, ErrConflict) {
				return err
			}
			if sale.tries >= o.Tries || sale.Options.TryOnce {
				return fmt.Errorf("%d tries: %w: %w", sale.tries, lock.ErrHeld, err)
			}
			pause(wait, o.bound(sale.tries, time.Since(began)))
		}
	}
}

// bound returns the longest pause after that many conflicts. took is the duration of the last try.
func (o OptimisticOptions) bound(conflicts int, took time.Duration) time.Duration {
	return min(cmp.Or(o.Pause, took)<<min(conflicts-1, doublings), o.MaxPause)
}

func (s *Sale) attempt(ctx context.Context, store Store) error {
	ctx, cancel := s.enterQueue(ctx)
	defer cancel()
	defer s.leave()
	s.tries++
	return readThinkWrite(ctx, store, s)
}

// pause sleeps up to most, or until wait ends.
func pause(wait context.Context, most time.Duration) {
	timer := time.NewTimer(rand.N(max(most, 1)))
	defer timer.Stop()
	select {
	case <-wait.Done():
	case <-timer.C:
	}
}

// swapping is a Store whose writes are swaps.
type swapping struct {
	Store
	swapper Swapper
}

func (s swapping) Write(ctx context.Context, o Order) error { return s.swapper.Swap(ctx, o) }
