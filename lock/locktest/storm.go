package locktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"example.com/stock/lock"
)

// A storm is many contenders inside one process.
type storm struct {
	Keys    []string
	Workers int           // goroutines
	Rounds  int           // acquisitions of each
	Hold    time.Duration // how long each holds, so that an overlap would show
	Limit   time.Duration // no round begins after this; 0: no limit
	Least   int           // rounds that each worker has even after Limit
	Leave   int           // a worker gives up every Leave-th round while it waits; 0: none
}

func (s storm) run(ctx context.Context, l lock.Locker) ([]Hold, error) {
	histories := make([][]Hold, s.Workers)
	began := time.Now()
	err := parallel(s.Workers, s.Workers, func(worker int) error {
		for i := range s.Rounds {
			if i >= s.Least && s.Limit > 0 && time.Since(began) > s.Limit {
				break
			}
			h, err := s.round(ctx, l, worker, i)
			if err != nil {
				return err
			}
			if h.To != 0 {
				histories[worker] = append(histories[worker], h)
			}
		}
		return nil
	})
	return slices.Concat(histories...), err
}

// round acquires and releases once. The Hold is empty if the worker gave up before it had the key.
func (s storm) round(ctx context.Context, l lock.Locker, worker, i int) (Hold, error) {
	key := s.Keys[(worker+i)%len(s.Keys)]
	leaves := s.Leave > 0 && i%s.Leave == s.Leave-1
	var lease *lock.Lease
	var err error
	if leaves {
		soon, cancel := context.WithTimeout(ctx, time.Duration(1+i%7)*time.Millisecond)
		lease, err = l.Acquire(soon, key, lock.Options{})
		cancel()
		// A worker that gives up after a millisecond may get ErrDown, because the server had no time to answer.
		if err != nil &&
			(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrDown)) {
			return Hold{}, nil
		}
	} else {
		lease, err = insist(ctx, l, key, lock.Options{})
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
	case isLost(err):
		h.To = h.From // a busy computer stopped this process past the lease: the end is not known
	case errors.Is(err, lock.ErrDown): // a server that is too busy frees it later
	case err != nil:
		return Hold{}, fmt.Errorf("release: %w", err)
	}
	return h, nil
}

// now returns the time since this computer started. All processes of the computer read the same time, even if the wall
// clock is set.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}

// A Hold is a period in which a key was held, by the clock of now. It lasts from the reply to Acquire until just before
// Release was called, or until the holder noticed its loss.
type Hold struct {
	Key      string
	From, To time.Duration
	Fence    lock.Fence
}

// Overlaps fails if two holds of one key overlap, or if fenced is set and a later hold has no larger fence.
func Overlaps(history []Hold, fenced bool) error {
	slices.SortFunc(history, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.From, b.From))
	})
	both, late := 0, 0
	for i := 1; i < len(history); i++ {
		before, next := history[i-1], history[i]
		if before.Key != next.Key {
			continue
		}
		if next.From < before.To {
			both++
			history[i].To = max(next.To, before.To)
		}
		if fenced && next.Fence <= before.Fence {
			late++
		}
	}
	switch {
	case both > 0:
		return fmt.Errorf("%d of %d holds overlap with one before", both, len(history))
	case late > 0:
		return fmt.Errorf("%d of %d holds have no larger fence than the one before", late, len(history))
	}
	return nil
}
