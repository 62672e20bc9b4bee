package locktest

import (
	"context"
	"errors"
	"fmt"

	"example.com/stock/lock"
)

// denied takes each right in turn from a user who waits for a key that another holds, and then holds it. The leases are
// longer than the patience of the clause, so a waiter that sleeps until one has run out fails it.
func denied(ctx context.Context, s *Scene) error {
	for _, right := range s.Rights {
		if err := deniedOne(ctx, s, right); err != nil {
			return fmt.Errorf("without %s: %w", right, err)
		}
	}
	return nil
}

func deniedOne(ctx context.Context, s *Scene, right string) error {
	deprived, closer, err := s.Deprive(ctx, addrs(s.Servers), right)
	if err != nil {
		return err
	}
	defer func() { _ = closer() }()
	key := s.Key + "-" + right
	held, err := insist(ctx, s.Locker(ctx), key)
	if err != nil {
		return err
	}
	type answer struct {
		lease *lock.Lease
		err   error
	}
	came := make(chan answer, 1)
	waiting, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	go func() {
		lease, err := deprived.Acquire(waiting, key, lock.Options{})
		came <- answer{lease, err}
	}()
	if err := held.Release(); err != nil {
		return errors.Join(err, (<-came).err)
	}
	got := <-came
	switch {
	case errors.Is(got.err, lock.ErrDenied):
	case got.err != nil:
		return fmt.Errorf("a waiter: %w, want ErrDenied", got.err)
	default:
		if err := got.lease.Release(); err != nil && !errors.Is(err, lock.ErrDenied) {
			return fmt.Errorf("release: %w, want ErrDenied", err)
		} else if err != nil {
			return nil // the key stays until its lease has run out
		}
	}
	next, err := once(ctx, s.Locker(ctx), key)
	if err != nil {
		return fmt.Errorf("something was left behind: %w", err)
	}
	return next.Release()
}
