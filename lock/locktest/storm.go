package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/lock"
)

// A storm is many contenders inside one process.
type storm struct {
	Keys    []string
	Workers int           // goroutines
	Rounds  int           // acquisitions of each
	Hold    time.Duration // in which an overlap would show
	Limit   time.Duration // begin no round after this; 0: none
	Leave   int           // every so-many-th of a worker leaves before its turn; 0: none
}

// rage runs s on l and returns the holds.
func (s storm) rage(ctx context.Context, l lock.Locker) ([]Hold, error) {
	var mu sync.Mutex
	var history []Hold
	var failed error
	began := time.Now()
	var all sync.WaitGroup
	for worker := range s.Workers {
		all.Go(func() {
			for i := range s.Rounds {
				if s.Limit > 0 && time.Since(began) > s.Limit {
					return
				}
				h, err := s.round(ctx, l, worker, i)
				mu.Lock()
				if err == nil && h.To != 0 {
					history = append(history, h)
				}
				if err != nil && failed == nil {
					failed = err
				}
				stop := failed != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	all.Wait()
	return history, failed
}

// round is one holding, or none if it left before its turn.
func (s storm) round(ctx context.Context, l lock.Locker, worker, i int) (Hold, error) {
	key := s.Keys[(worker+i)%len(s.Keys)]
	leaves := s.Leave > 0 && i%s.Leave == s.Leave-1
	var lease *lock.Lease
	var err error
	if leaves {
		soon, cancel := context.WithTimeout(ctx, time.Duration(1+i%7)*time.Millisecond)
		lease, err = l.Acquire(soon, key, lock.Options{})
		cancel()
		// A server that has a millisecond to answer may well be called down.
		if err != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrDown)) {
			return Hold{}, nil
		}
	} else {
		lease, err = insist(ctx, l, key)
	}
	if err != nil {
		return Hold{}, fmt.Errorf("acquire: %w", err)
	}
	h := Hold{Key: key, Fence: lease.Fence(), From: now()}
	if s.Hold > 0 {
		time.Sleep(s.Hold)
	}
	h.To = now()
	switch err := lease.Release(); {
	case over(err):
		h.To = h.From // a busy computer stopped us for longer than the lease: when it ended is not known
	case errors.Is(err, lock.ErrDown): // a server that is too busy frees it later
	case err != nil:
		return Hold{}, fmt.Errorf("release: %w", err)
	}
	return h, nil
}
