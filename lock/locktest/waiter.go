package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
)

// frozenWaiter freezes a process that waits for several keys. Meanwhile every grant to it expires, and other processes
// hold the keys. It is thawed while another process holds them. What the servers have sent it then arrives, once before
// its next requests or beside them, and once after their replies, if the servers send anything unasked. Several keys
// are needed because the first of these is a race.
func frozenWaiter(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	ways := []bool{false, true}
	if s.Wire.Push == nil {
		ways = ways[:1]
	}
	return parallel(len(ways), len(ways), func(i int) error {
		err := s.retry(ctx, func() error { return s.frozenWaiter(ctx, list, ways[i]) })
		if err != nil {
			return fmt.Errorf("old messages come after new replies: %t: %w", ways[i], err)
		}
		return nil
	})
}

func (s *Scene) frozenWaiter(ctx context.Context, list []*remote, late bool) error {
	away, err := s.distant(ctx)
	if err != nil {
		return err
	}
	defer away.close(ctx)
	const keys = 4 // a process of every lock has connections for so many
	waits := make([]*wait, keys)
	for i := range waits {
		waits[i] = &wait{s: s, key: FreshKey(), away: away.remote, one: list[0], other: list[1]}
	}
	if err := parallel(keys, keys, func(i int) error { return waits[i].begin(ctx) }); err != nil {
		return err
	}
	if err := away.freeze(); err != nil {
		return err
	}
	if late {
		away.set(wire.Trap{On: wire.ToClient, Match: s.Wire.Push, Do: wire.Hold})
	}
	err = parallel(keys, keys, func(i int) error { return waits[i].pass(ctx) })
	if err := errors.Join(err, away.thaw()); err != nil {
		return fmt.Errorf("a waiter is frozen: %w", err)
	}
	if late {
		time.Sleep(s.Lease / 2) // it asks again; if it has not, the check is only weaker
		for _, snare := range away.snares {
			snare.Release()
		}
	}
	if err := parallel(keys, keys, func(i int) error { return waits[i].end(ctx) }); err != nil {
		return err
	}
	var history []Hold
	for _, w := range waits {
		history = append(history, w.history...)
	}
	return Overlaps(history, s.Promise.Fenced)
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
