package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
)

// unknown lets work end with a write under way that a slow store does later: after a quarter of the lease, or if the
// lock is of this process alone after a moment. Who comes next must not have the key before that, or he would read
// what the write is about to change.
func unknown(ctx context.Context, s *Scene) error {
	if !cluster(s.Harness) {
		return s.unknownInside(ctx)
	}
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	return s.mostly(ctx, 3, func() error {
		key := FreshKey()
		_, did, err := list[0].call(ctx, request{Do: "unknown", Locker: list[0].locker, Key: key, Wait: s.patience})
		if err := wantUnknown(err); err != nil {
			return err
		}
		applied := now() + s.Lease/4
		next, err := list[1].get(ctx, grip{Key: key, Wait: s.Lease + s.patience, Insist: true})
		if err != nil {
			return fmt.Errorf("the key did not become free: %w", err)
		}
		defer func() { _, _ = next.release(ctx) }()
		// A computer so busy that the lease was over before the write was due proves nothing.
		if ran := next.From - did.From; next.From < applied && ran < s.Lease*9/10 {
			return fmt.Errorf("the next one had the key %v into a lease of %v, %v before the write was done",
				ran, s.Lease, applied-next.From)
		}
		return nil
	})
}

// unknownInside tries without processes, on a lease whose length is not known.
func (s *Scene) unknownInside(ctx context.Context) error {
	err := lock.Do(ctx, s.Locker(ctx), s.Key, lock.Options{}, unanswered)
	if err := wantUnknown(err); err != nil {
		return err
	}
	applied := time.Now().Add(100 * time.Millisecond)
	for other := s.Locker(ctx); time.Now().Before(applied); time.Sleep(time.Millisecond) { // only a polling interval
		lease, err := once(ctx, other, s.Key)
		if err == nil && time.Now().Before(applied) {
			_ = lease.Release()
			return errors.New("the next one had the key before the write was done")
		}
		if err != nil && !errors.Is(err, lock.ErrHeld) {
			return fmt.Errorf("the next one was told %w, want ErrHeld", err)
		}
	}
	return nil
}

// unanswered is work whose write was sent and not answered.
func unanswered(context.Context, lock.Fence) error { return lock.ErrOutcomeUnknown }

func wantUnknown(err error) error {
	if !errors.Is(err, lock.ErrOutcomeUnknown) || errors.Is(err, lock.ErrLost) {
		return fmt.Errorf("work of unknown outcome: %v, want ErrOutcomeUnknown and no loss", err)
	}
	return nil
}
