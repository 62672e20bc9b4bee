package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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

// pausedWaiter stops a process that waits for several keys at once until what the server may have granted to it has run
// out and others have come and gone. It wakes while another holds. One key would show little: it is a race, within the
// process that wakes, between what it was told before and what it asks now.
func pausedWaiter(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 3, s.Lease)
	if err != nil {
		return err
	}
	return s.mostly(ctx, 2, func() error {
		keys := 10
		if s.Room > 0 {
			keys = min(keys, s.Room)
		}
		waits := make([]*wait, keys)
		for i := range waits {
			waits[i] = &wait{s: s, key: FreshKey(), away: list[0], one: list[1], other: list[2]}
		}
		if err := side(waits, func(w *wait) error { return w.begin(ctx) }); err != nil {
			return err
		}
		if err := list[0].pause(); err != nil {
			return err
		}
		err := side(waits, func(w *wait) error { return w.pass(ctx) })
		if err := errors.Join(err, list[0].resume()); err != nil {
			return fmt.Errorf("a waiter is paused: %w", err)
		}
		if err := side(waits, func(w *wait) error { return w.end(ctx) }); err != nil {
			return err
		}
		var history []Hold
		for _, w := range waits {
			history = append(history, w.history...)
		}
		s.seen = fmt.Sprintf("%d holds of %d keys", len(history), keys)
		return overlaps(history, s.Promise.Fenced)
	})
}

// A wait is that of the paused process for one key, and who holds it meanwhile.
type wait struct {
	s                *Scene
	key              string
	away, one, other *remote
	first, last      *held
	come             func(context.Context) (*held, error)
	history          []Hold
}

// side does something to all waits at once.
func side(waits []*wait, do func(*wait) error) error {
	failed := make([]error, len(waits))
	var all sync.WaitGroup
	for i, w := range waits {
		all.Go(func() { failed[i] = do(w) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// begin has one hold the key and the other process wait for it.
func (w *wait) begin(ctx context.Context) (err error) {
	if w.first, err = w.one.get(ctx, grip{Key: w.key, Wait: w.s.patience, Insist: true}); err != nil {
		return err
	}
	w.come, _, err = w.away.take(grip{Key: w.key, Wait: w.s.Lease + 4*w.s.patience, Insist: true})
	if err != nil || !w.s.Promise.Fair {
		time.Sleep(100 * time.Millisecond) // lets it begin to wait; if it has not, the sentence is only weaker
		return err
	}
	return queued(ctx, w.one, w.key, 1)
}

// pass lets go of the key, which may go to the process that is away, and has two others hold it after that, one after
// the other.
func (w *wait) pass(ctx context.Context) (err error) {
	if err := w.ended(ctx, w.first); err != nil {
		return err
	}
	next, err := w.one.get(ctx, grip{Key: w.key, Wait: w.s.Lease + 2*w.s.patience, Insist: true})
	if err != nil {
		return err
	}
	if err := w.ended(ctx, next); err != nil {
		return err
	}
	time.Sleep(w.s.Lease) // or where nothing is granted to who waits the pause would be shorter than a lease
	w.last, err = w.other.get(ctx, grip{Key: w.key, Wait: w.s.Lease + 2*w.s.patience, Insist: true})
	return err
}

// end lets the process that was away look around while another holds the key, and then have it.
func (w *wait) end(ctx context.Context) error {
	time.Sleep(w.s.Lease / 2) // in which a lease that it must not have would show
	if err := w.ended(ctx, w.last); err != nil {
		return err
	}
	mine, err := w.come(ctx)
	if err != nil {
		return fmt.Errorf("who was paused while it waited: %w", err)
	}
	return w.ended(ctx, mine)
}

// ended releases h and writes down when it was held, by its own clock: up to the release, or to its loss.
func (w *wait) ended(ctx context.Context, h *held) error {
	to, err := h.release(ctx)
	if over(err) {
		soon, cancel := context.WithTimeout(ctx, w.s.patience)
		defer cancel()
		if at, why, err := h.loss(soon); err == nil && !errors.Is(why, lock.ErrReleased) {
			to = min(to, at)
		}
		err = nil
	}
	if errors.Is(err, lock.ErrDown) { // a server that is too busy frees it later
		err = nil
	}
	w.history = append(w.history, Hold{Key: w.key, From: h.From, To: max(to, h.From), Fence: h.Fence})
	return err
}
