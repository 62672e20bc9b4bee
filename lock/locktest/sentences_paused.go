package locktest

import (
	"context"
	"errors"
	"fmt"

	"example.com/stock/lock"
)

// overtake pauses a holder until another has the key, and lets it go on.
func (s *Scene) overtake(ctx context.Context, one, other *remote) (late, next *held, err error) {
	key := FreshKey()
	if late, err = one.get(ctx, grip{Key: key, Wait: s.patience, Insist: true}); err != nil {
		return nil, nil, err
	}
	if err := one.pause(); err != nil {
		return nil, nil, err
	}
	next, err = other.get(ctx, grip{Key: key, Wait: s.Lease + s.patience, Insist: true})
	if err := errors.Join(err, one.resume()); err != nil {
		return nil, nil, fmt.Errorf("a holder is paused: %w", err)
	}
	return late, next, nil
}

func paused(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	late, next, err := s.overtake(ctx, list[0], list[1])
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	_, why, err := late.loss(soon)
	switch {
	case err != nil:
		return err
	case !errors.Is(why, lock.ErrLost):
		return fmt.Errorf("lost because of %w, want ErrLost", why)
	case s.Promise.Fenced && next.Fence <= late.Fence:
		return fmt.Errorf("fence %d after %d", next.Fence, late.Fence)
	}
	_, _ = next.release(ctx)
	return nil
}

// owner lets the one who lost the key release it, and then tries to get it past the next holder.
func owner(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 3, s.Lease)
	if err != nil {
		return err
	}
	return s.mostly(ctx, 3, func() error {
		late, next, err := s.overtake(ctx, list[0], list[1])
		if err != nil {
			return err
		}
		_, err = late.release(ctx)
		if !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrExpired) && !errors.Is(err, lock.ErrTaken) {
			return fmt.Errorf("its release: %v, want ErrLost because of ErrExpired or ErrTaken", err)
		}
		third, err := list[2].get(ctx, grip{Key: late.Key, Wait: s.patience, Try: true})
		if err == nil {
			_, _ = third.release(ctx)
			return fmt.Errorf("a third had the key %v after the next holder, whose lease is %v", third.From-next.From, s.Lease)
		}
		if !errors.Is(err, lock.ErrHeld) {
			return fmt.Errorf("a third was told %w, want ErrHeld", err)
		}
		if _, err := next.release(ctx); err != nil {
			return fmt.Errorf("the next holder's release: %w", err)
		}
		return nil
	})
}
