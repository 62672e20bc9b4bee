package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
)

// restart kills the servers, or as many as may fail, under a holder and a waiter.
func restart(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 3, s.Lease)
	if err != nil {
		return err
	}
	if err := s.mostly(ctx, 3, func() error { return s.outage(ctx, list[0], list[1]) }); err != nil {
		return err
	}
	for _, r := range list {
		h, err := r.get(ctx, grip{Key: s.Key, Wait: s.Lease + 2*s.patience, Insist: true})
		if err == nil {
			_, err = h.release(ctx)
		}
		if err != nil {
			return fmt.Errorf("after the restart: %w", err)
		}
	}
	return nil
}

func (s *Scene) outage(ctx context.Context, one, other *remote) error {
	key := FreshKey()
	h, err := one.get(ctx, grip{Key: key, Wait: s.patience, Insist: true})
	if err != nil {
		return err
	}
	wait, _, err := other.take(grip{Key: key, Wait: s.Lease + 4*s.patience, Insist: true})
	if err != nil {
		return err
	}
	down := s.Servers
	if s.Failing > 0 {
		down = down[:s.Failing]
	}
	for _, server := range down {
		if err := server.Kill(); err != nil {
			return err
		}
	}
	for _, server := range down {
		if err := server.Restart(ctx); err != nil {
			return err
		}
	}
	// The holder works on for a while: what the server has forgotten is now given away.
	soon, cancel := context.WithTimeout(ctx, s.Lease/2)
	defer cancel()
	if rival, err := wait(soon); err == nil {
		return s.alone(ctx, h, rival, nil)
	}
	if _, err := h.release(ctx); err != nil && !errors.Is(err, lock.ErrDown) && !over(err) {
		return fmt.Errorf("release: %w, want none, ErrLost or ErrDown", err)
	}
	next, err := wait(ctx)
	if err != nil {
		return fmt.Errorf("who waited over the restart: %w", err)
	}
	defer func() { _, _ = next.release(ctx) }()
	if s.Promise.Fenced && next.Fence <= h.Fence {
		return fmt.Errorf("fence %d after %d", next.Fence, h.Fence)
	}
	return nil
}

// perKey is how much may stay of a key: a fence, and what it is locked by.
const perKey = 2

// few goroutines are no leak.
const few = 10

// traces looks for what is left after many acquisitions.
func traces(ctx context.Context, s *Scene) error {
	list, before := make([]*remote, 2), make([]int, 2)
	for i := range list {
		p, err := s.bare()
		if err != nil {
			return err
		}
		if before[i], err = p.goroutines(ctx); err != nil {
			return err
		}
		if list[i], err = p.open(ctx, s.Harness, addrs(s.Servers), calm); err != nil {
			return err
		}
	}
	var keys []string
	for i := range 5 {
		keys = append(keys, fmt.Sprintf("%s-%d", s.Key, i))
	}
	// Ten thousand and some, without those that are given up: up to half a minute for the slowest.
	history, err := rage(ctx, list, storm{Keys: keys, Workers: 8, Rounds: 700, Limit: s.storm, Leave: 10})
	if err == nil {
		err = overlaps(history, s.Promise.Fenced)
	}
	if err != nil {
		return err
	}
	for _, r := range list {
		if _, _, err := r.call(ctx, request{Do: "close", Locker: r.locker}); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	s.seen = fmt.Sprintf("%d acquisitions", len(history))
	if s.Kept != nil {
		n, err := s.Kept(ctx, addrs(s.Servers), s.Key)
		if err != nil {
			return err
		}
		if s.seen += fmt.Sprintf(", %d things of %d keys stay", n, len(keys)); n > perKey*len(keys) {
			return fmt.Errorf("%s: that is more than %d for each", s.seen, perKey)
		}
	}
	left := ""
	for deadline := time.Now().Add(s.patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if left, err = s.left(ctx, list, before); err != nil || left == "" {
			return err
		}
	}
	return errors.New(left)
}

func (s *Scene) left(ctx context.Context, list []*remote, before []int) (string, error) {
	for i, r := range list {
		after, err := r.goroutines(ctx)
		if err != nil {
			return "", err
		}
		// A handful more is the runtime's or the contender's own, which may start after the first count. A leak is one for each of
		// thousands of acquisitions.
		if after > before[i]+few {
			return fmt.Sprintf("%d goroutines, %d before", after, before[i]), nil
		}
	}
	if s.Left == nil {
		return "", nil
	}
	names, err := s.Left(ctx, addrs(s.Servers), s.Key)
	if err != nil || len(names) == 0 {
		return "", err
	}
	return fmt.Sprintf("%d things on the server, such as %s", len(names), names[0]), nil
}

func (p *process) goroutines(ctx context.Context) (int, error) {
	_, answer, err := p.call(ctx, request{Do: "count"})
	return answer.N, err
}
