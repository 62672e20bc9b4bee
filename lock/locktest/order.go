package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.com/stock/lock"
)

func fences(ctx context.Context, s *Scene) error {
	var last lock.Fence
	lockers := []lock.Locker{s.Locker(ctx), s.Locker(ctx)}
	for i := range 20 {
		lease, err := insist(ctx, lockers[i%2], s.Key)
		if err != nil {
			return err
		}
		if lease.Fence() <= last {
			return fmt.Errorf("fence %d after %d", lease.Fence(), last)
		}
		last = lease.Fence()
		if err := lease.Release(); err != nil {
			return err
		}
	}
	return nil
}

func fifo(ctx context.Context, s *Scene) error {
	first := s.Locker(ctx)
	lease, err := once(ctx, first, s.Key)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var order []int
	var failed error
	var all sync.WaitGroup
	for i := range 9 {
		l := s.Locker(ctx)
		all.Go(func() {
			next, err := l.Acquire(ctx, s.Key, lock.Options{})
			mu.Lock()
			order, failed = append(order, i), errors.Join(failed, err)
			mu.Unlock()
			if err == nil {
				_ = next.Release()
			}
		})
		if err := queued(ctx, first, s.Key, i+1); err != nil {
			failed = errors.Join(failed, err, lease.Release())
			all.Wait()
			return failed
		}
	}
	if err := lease.Release(); err != nil {
		return err
	}
	all.Wait()
	if failed != nil {
		return failed
	}
	if !slices.IsSorted(order) {
		return fmt.Errorf("served in the order %v", order)
	}
	return nil
}

// queued waits until n contenders wait for key. If the lock cannot report waiters, it waits a moment.
func queued(ctx context.Context, l lock.Locker, key string, n int) error {
	for deadline := time.Now().Add(timeout); ; {
		state, err := lock.Inspect(ctx, l, key)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			time.Sleep(150 * time.Millisecond) // arrivals must be apart, or their order is undefined
			return nil
		case err == nil && len(state.Waiters) >= n:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%d wait, but %d are seen (%w)", n, len(state.Waiters), err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
