package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
)

// A distant Locker is in a process behind proxies, which only it uses.
type distant struct {
	*remote
	wires  []*wire.Proxy
	snares []*wire.Snare // one for each proxy and trap
}

// distant opens a Locker with a process of its own.
func (s *Scene) distant(ctx context.Context) (*distant, error) {
	p, err := s.process()
	if err != nil {
		return nil, err
	}
	return s.behind(ctx, p, s.Lease, 0)
}

// behind opens a Locker in p, see process.open. The traps are set before.
func (s *Scene) behind(
	ctx context.Context, p *process, lease time.Duration, plain int, traps ...wire.Trap,
) (*distant, error) {
	d := new(distant)
	var at []string
	for _, server := range s.Servers {
		w, err := wire.Listen(server.Addr, s.Wire)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.wires = append(s.wires, w)
		s.mu.Unlock()
		d.wires, at = append(d.wires, w), append(at, w.Addr())
	}
	for _, trap := range traps {
		d.set(trap)
	}
	var err error
	d.remote, err = p.open(ctx, s.Harness, at, lease, plain)
	return d, err
}

func (d *distant) set(trap wire.Trap) {
	for _, w := range d.wires {
		d.snares = append(d.snares, w.Set(trap))
	}
}

// requests returns how many requests a server has received.
func (d *distant) requests() (n int) {
	for _, w := range d.wires {
		n = max(n, w.Requests())
	}
	return n
}

// crash kills a holder, and a waiter that has another waiter behind it.
func crash(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 3, s.Lease)
	if err != nil {
		return err
	}
	h, err := s.hold(ctx, list[0], s.Key)
	if err != nil {
		return err
	}
	if _, err := list[1].begin(attempt{Key: s.Key, Wait: time.Hour}); err != nil {
		return err
	}
	if err := s.queued(ctx, list[2], s.Key, 1); err != nil {
		return err
	}
	wait, err := list[2].begin(attempt{Key: s.Key, Wait: s.Lease + s.timeout, Insist: true})
	if err != nil {
		return err
	}
	if err := errors.Join(list[1].kill(), list[0].kill()); err != nil {
		return err
	}
	next, err := wait(ctx)
	if err != nil {
		return fmt.Errorf("a holder and the first waiter were killed; with a lease of %v nobody had the key for %v: %w",
			s.Lease, s.Lease+s.timeout, err)
	}
	_, err = next.release(ctx)
	return errors.Join(s.later(h, next), err)
}

// StatementLimit is the time limit of Harness.Limit.
const StatementLimit = 200 * time.Millisecond

// statementLimit lets a waiter wait for several times as long as the server lets a statement take.
func statementLimit(ctx context.Context, s *Scene) error {
	if err := s.Limit(ctx, addrs(s.Servers)); err != nil {
		return err
	}
	list, err := s.processes(ctx, 2, calm)
	if err != nil {
		return err
	}
	return s.handover(ctx, list[0], list[1], 12*StatementLimit)
}

// crashPoints kills a process before each request of its acquisition, and after the last one.
func crashPoints(ctx context.Context, s *Scene) error {
	_, sound, n, err := s.counted(ctx)
	if err != nil {
		return err
	}
	return parallel(n, 4, func(k int) error {
		if err := s.crashPoint(ctx, sound, k); err != nil {
			return fmt.Errorf("killed before request %d of %d: %w", k+1, n, err)
		}
		return nil
	})
}

func (s *Scene) crashPoint(ctx context.Context, sound *remote, k int) error {
	doomed, err := s.distant(ctx)
	if err != nil {
		return err
	}
	doomed.set(wire.Trap{Skip: k, Do: wire.Hold})
	key := FreshKey()
	wait, err := doomed.begin(attempt{Key: key, Wait: s.timeout})
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	got := make(chan struct{})
	s.suite.tries.Go(func() {
		_, _ = wait(soon)
		close(got)
	})
	for _, snare := range doomed.snares {
		select {
		case <-snare.Sprung():
		case <-got: // the acquisition took fewer requests
		}
	}
	if err := doomed.kill(); err != nil {
		return err
	}
	for _, w := range doomed.wires {
		w.Cut() // what was held back is lost, and the server sees the end of the connection
	}
	next, err := s.hold(ctx, sound, key)
	if err != nil {
		return err
	}
	if _, err := next.release(ctx); err != nil && !isLost(err) {
		return err
	}
	return nil
}

// restart kills the servers, or as many as may fail, while there are a holder and a waiter.
func restart(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 3, s.Lease)
	if err != nil {
		return err
	}
	if err := s.retry(ctx, func() error { return s.outage(ctx, list[0], list[1]) }); err != nil {
		return err
	}
	for _, r := range list {
		soon, cancel := context.WithTimeout(ctx, s.Lease+2*s.timeout)
		defer cancel()
		if err := <-Come(soon, r, s.Key, ""); err != nil {
			return fmt.Errorf("after the restart: %w", err)
		}
	}
	return nil
}

func (s *Scene) outage(ctx context.Context, one, other *remote) error {
	key := FreshKey()
	h, err := s.hold(ctx, one, key)
	if err != nil {
		return err
	}
	wait, err := other.begin(attempt{Key: key, Wait: s.Lease + 4*s.timeout, Insist: true})
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
	// The holder keeps the key for a while: a restarted server that has lost the key would now grant it to the waiter.
	soon, cancel := context.WithTimeout(ctx, s.Lease/2)
	defer cancel()
	if rival, err := wait(soon); err == nil {
		return s.noRival(ctx, h, rival, nil)
	}
	if _, err := h.release(ctx); err != nil && !errors.Is(err, lock.ErrDown) && !isLost(err) {
		return fmt.Errorf("release: %w, want none, ErrLost or ErrDown", err)
	}
	next, err := wait(ctx)
	if err != nil {
		return fmt.Errorf("a waiter over the restart: %w", err)
	}
	defer func() { _, _ = next.release(ctx) }()
	return s.later(h, next)
}
