package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
)

// frozenWaiter freezes a process that waits for several keys. Meanwhile every grant to it expires, and other processes
// hold the keys. It is thawed while another process holds them. Several keys are needed, because the thawed process
// has a race between earlier messages and new requests.
func frozenWaiter(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 3, s.Lease)
	if err != nil {
		return err
	}
	return s.retry(ctx, func() error {
		const keys = 4 // a process of every lock has connections for so many
		waits := make([]*wait, keys)
		for i := range waits {
			waits[i] = &wait{s: s, key: FreshKey(), away: list[0], one: list[1], other: list[2]}
		}
		if err := parallel(keys, keys, func(i int) error { return waits[i].begin(ctx) }); err != nil {
			return err
		}
		if err := list[0].freeze(); err != nil {
			return err
		}
		err := parallel(keys, keys, func(i int) error { return waits[i].pass(ctx) })
		if err := errors.Join(err, list[0].thaw()); err != nil {
			return fmt.Errorf("a waiter is frozen: %w", err)
		}
		if err := parallel(keys, keys, func(i int) error { return waits[i].end(ctx) }); err != nil {
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

// A wait is the frozen process's wait for one key, with the key's holders while it is frozen.
type wait struct {
	s                *Scene
	key              string
	away, one, other *remote
	first, last      *remoteLease
	come             func(context.Context) (*remoteLease, error)
	history          []Hold
}

// begin lets one process hold the key, and lets the process that will be frozen wait for it.
func (w *wait) begin(ctx context.Context) (err error) {
	if w.first, err = w.s.hold(ctx, w.one, w.key); err != nil {
		return err
	}
	w.come, err = w.away.begin(attempt{Key: w.key, Wait: w.s.Lease + 4*w.s.timeout, Insist: true})
	if err != nil {
		return err
	}
	return w.s.queued(ctx, w.one, w.key, 1)
}

// pass releases the key, which may then be granted to the frozen process, and then lets two other processes hold it,
// one after the other.
func (w *wait) pass(ctx context.Context) (err error) {
	if err := w.ended(ctx, w.first); err != nil {
		return err
	}
	next, err := w.one.acquire(ctx, attempt{Key: w.key, Wait: w.s.Lease + 2*w.s.timeout, Insist: true})
	if err != nil {
		return err
	}
	if err := w.ended(ctx, next); err != nil {
		return err
	}
	time.Sleep(w.s.Lease) // it must last for a lease, even if the waiter is granted nothing
	w.last, err = w.other.acquire(ctx, attempt{Key: w.key, Wait: w.s.Lease + 2*w.s.timeout, Insist: true})
	return err
}

// end waits while another process still holds the key, and then checks that the thawed process gets the key.
func (w *wait) end(ctx context.Context) error {
	time.Sleep(w.s.Lease / 2) // a wrong lease of the thawed process would show in this time
	if err := w.ended(ctx, w.last); err != nil {
		return err
	}
	mine, err := w.come(ctx)
	if err != nil {
		return fmt.Errorf("a waiter that was frozen: %w", err)
	}
	return w.ended(ctx, mine)
}

// ended releases h and records the end of its hold by its own clock: the release, or the loss.
func (w *wait) ended(ctx context.Context, h *remoteLease) error {
	to, err := h.release(ctx)
	if isLost(err) {
		if at, why, err := w.s.loss(ctx, h); err == nil && !errors.Is(why, lock.ErrReleased) {
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
