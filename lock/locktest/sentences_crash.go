package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/lock"
	"example.com/stock/stack/wire"
)

// crash kills a holder while another waits.
func crash(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	h, err := list[0].get(ctx, grip{Key: s.Key, Wait: s.patience, Insist: true})
	if err != nil {
		return err
	}
	wait, _, err := list[1].take(grip{Key: s.Key, Wait: s.Lease + s.patience, Insist: true})
	if err != nil {
		return err
	}
	if err := list[0].kill(); err != nil {
		return err
	}
	next, err := wait(ctx)
	if err != nil {
		return fmt.Errorf("a holder was killed, and with a lease of %v nobody had the key for %v: %w", s.Lease, s.Lease+s.patience, err)
	}
	if s.Promise.Fenced && next.Fence <= h.Fence {
		return fmt.Errorf("fence %d after %d", next.Fence, h.Fence)
	}
	_, err = next.release(ctx)
	return err
}

// deadWaiter kills one that waits before another.
func deadWaiter(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 3, s.Lease)
	if err != nil {
		return err
	}
	h, err := list[0].get(ctx, grip{Key: s.Key, Wait: s.patience, Insist: true})
	if err != nil {
		return err
	}
	if _, _, err := list[1].take(grip{Key: s.Key, Wait: time.Hour}); err != nil {
		return err
	}
	if s.Promise.Fair {
		err = queued(ctx, list[0], s.Key, 1)
	} else {
		time.Sleep(100 * time.Millisecond) // lets it begin to wait; if it has not, the sentence is only weaker
	}
	if err != nil {
		return err
	}
	wait, _, err := list[2].take(grip{Key: s.Key, Wait: 2 * s.patience, Insist: true})
	if err != nil {
		return err
	}
	if err := list[1].kill(); err != nil {
		return err
	}
	if _, err := h.release(ctx); err != nil && !over(err) { // a lease that is not renewed may be over
		return err
	}
	next, err := wait(ctx)
	if err != nil {
		return fmt.Errorf("behind a waiter that was killed: %w", err)
	}
	if _, err = next.release(ctx); err != nil && !over(err) {
		return err
	}
	return nil
}

// generations kills the process of every holder, of some while they hold.
func generations(ctx context.Context, s *Scene) error {
	var last lock.Fence
	for i := range 3 {
		p, err := s.process(ctx, addrs(s.Servers), s.Lease)
		if err != nil {
			return err
		}
		h, err := p.get(ctx, grip{Key: s.Key, Wait: s.Lease + s.patience, Insist: true})
		if err != nil {
			return err
		}
		if h.Fence <= last {
			return fmt.Errorf("fence %d after %d", h.Fence, last)
		}
		last = h.Fence
		if i == 0 {
			if _, err := h.release(ctx); err != nil {
				return err
			}
		}
		if err := p.kill(); err != nil {
			return err
		}
	}
	return nil
}

// crashPoints kills a process before each request of its acquisition, and after the last.
func crashPoints(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	n, err := s.requests(ctx, list[0], list[1], false)
	if err != nil {
		return err
	}
	return abreast(n, func(k int) error {
		if err := s.crashPoint(ctx, list[1], k); err != nil {
			return fmt.Errorf("killed before request %d of %d: %w", k+1, n, err)
		}
		return nil
	})
}

func (s *Scene) crashPoint(ctx context.Context, sound *remote, k int) error {
	wires, at, err := s.wired()
	if err != nil {
		return err
	}
	doomed, err := s.process(ctx, at, s.Lease)
	if err != nil {
		return err
	}
	var snares []*wire.Snare
	for _, w := range wires {
		snares = append(snares, w.Set(wire.Trap{Skip: k, Do: wire.Hold}))
	}
	key := FreshKey()
	wait, _, err := doomed.take(grip{Key: key, Wait: s.patience})
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	got := make(chan struct{})
	s.suite.tries.Go(func() {
		_, _ = wait(soon)
		close(got)
	})
	for _, snare := range snares {
		select {
		case <-snare.Sprung():
		case <-got: // it took fewer requests
		}
	}
	if err := doomed.kill(); err != nil {
		return err
	}
	for _, w := range wires {
		w.Cut() // what was held back is lost, and the server sees the end of the connection
	}
	next, err := sound.get(ctx, grip{Key: key, Wait: s.Lease + s.patience, Insist: true})
	if err != nil {
		return err
	}
	if _, err := next.release(ctx); err != nil && !over(err) {
		return err
	}
	return nil
}

// abreast does something n times, four at a time.
func abreast(n int, do func(i int) error) error {
	failed := make([]error, n)
	turns := make(chan struct{}, 4)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			failed[i] = do(i)
		})
	}
	all.Wait()
	return errors.Join(failed...)
}
