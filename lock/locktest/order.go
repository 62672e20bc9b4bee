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

// fences lets two processes take turns. In each, three callers come at a time: if one hands its lease to the next, the
// fence of the other process must leave room.
func fences(ctx context.Context, s *Scene) error {
	var mu sync.Mutex
	var last lock.Fence
	hold := func(l lock.Locker) error {
		lease, err := insist(ctx, l, s.Key, lock.Options{})
		if err != nil {
			return err
		}
		mu.Lock()
		if lease.Fence() <= last {
			err = fmt.Errorf("fence %d after %d", lease.Fence(), last)
		}
		last = lease.Fence()
		mu.Unlock()
		time.Sleep(time.Millisecond) // so that the others of the process queue up
		return errors.Join(err, lease.Release())
	}
	lockers := []lock.Locker{s.Locker(ctx), s.Locker(ctx)}
	for i := range 10 {
		errs := make(chan error, 3)
		for range cap(errs) {
			go func() { errs <- hold(lockers[i%2]) }()
		}
		if err := errors.Join(<-errs, <-errs, <-errs); err != nil {
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
		if err := s.queued(ctx, first, s.Key, i+1); err != nil {
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

// queued waits until n contenders wait for key. If the lock is not fair or cannot report waiters, it waits a moment: if
// they have not begun to wait by then, the check is only weaker.
func (s *Scene) queued(ctx context.Context, l lock.Locker, key string, n int) error {
	for deadline := time.Now().Add(timeout); ; {
		state, err := lock.Inspect(ctx, l, key)
		switch {
		case !s.Promise.Fair, errors.Is(err, errors.ErrUnsupported):
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
