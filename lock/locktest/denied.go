package locktest

import (
	"context"
	"errors"
	"fmt"

	"example.com/stock/lock"
)

// denied takes each right in turn from a user who takes a key away, waits for a key that another holds, and then holds
// it. The leases are longer than the patience of the clause, so a waiter that sleeps until one has run out fails it.
func denied(ctx context.Context, s *Scene) error {
	return parallel(len(s.Rights), 4, func(i int) error {
		if err := deniedOne(ctx, s, s.Rights[i]); err != nil {
			return fmt.Errorf("without %s: %w", s.Rights[i], err)
		}
		return nil
	})
}

func deniedOne(ctx context.Context, s *Scene, right string) error {
	deprived, closer, err := s.Deprive(ctx, addrs(s.Servers), right)
	if err != nil {
		return err
	}
	defer func() { _ = closer() }()
	key := s.Key + "-" + right
	_, err = lock.Evict(ctx, deprived, key)
	if err != nil && !errors.Is(err, lock.ErrDenied) && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("evict: %w, want ErrDenied", err)
	}
	held, err := insist(ctx, s.Locker(ctx), key, lock.Options{})
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var lease *lock.Lease
	came := make(chan error, 1)
	go func() {
		got, err := deprived.Acquire(waiting, key, lock.Options{})
		lease = got
		came <- err
	}()
	if err := held.Release(); err != nil {
		return errors.Join(err, <-came)
	}
	if err := <-came; err != nil && !errors.Is(err, lock.ErrDenied) {
		return fmt.Errorf("a waiter: %w, want ErrDenied", err)
	} else if err == nil {
		switch err := lease.Release(); {
		case errors.Is(err, lock.ErrDenied):
			return nil // the key stays until its lease has run out
		case err != nil:
			return fmt.Errorf("release: %w, want ErrDenied", err)
		}
	}
	next, err := once(ctx, s.Locker(ctx), key)
	if err != nil {
		return fmt.Errorf("something was left behind: %w", err)
	}
	return next.Release()
}
