package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
)

// standstill ends the answers to processes that hold, wait and ask: first the networks of their clients swallow
// everything, then the servers stand still. Each client has the settings of its library: see Harness.Plain.
func standstill(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 1+len(s.Plain), s.Lease)
	if err != nil {
		return err
	}
	for _, swallow := range []bool{true, false} {
		err := s.retry(ctx, func() error { return s.standStill(ctx, list[0], list[1:], swallow) })
		if err != nil {
			return fmt.Errorf("networks swallow everything: %t: %w", swallow, err)
		}
	}
	return nil
}

// A silenced process loses one lease, and gets no answer to the release of the other one.
type silenced struct {
	*distant
	lost, released *remoteLease
	free           string // a key that it asks for
}

// standStill makes the networks of all clients swallow everything, or the servers stand still. In the second case the
// servers grant keys to others again only when the leases that are to be lost have run out.
func (s *Scene) standStill(ctx context.Context, sound *remote, list []*remote, swallow bool) error {
	clients := make([]*silenced, len(list))
	each := func(do func(int) error) error {
		return parallel(len(list), len(list), func(i int) error {
			if err := do(i); err != nil {
				return fmt.Errorf("client %d: %w", i+1, err)
			}
			return nil
		})
	}
	defer func() {
		for _, c := range clients {
			if c != nil {
				c.close(ctx)
			}
		}
	}()
	if err := each(func(i int) (err error) {
		clients[i], err = s.beforeStill(ctx, list[i].process, i+1)
		return err
	}); err != nil {
		return err
	}
	time.Sleep(s.Lease / 2) // a lease that is renewed has been renewed, and the next renewal gets no answer
	if err := s.silence(clients, swallow, true); err != nil {
		return errors.Join(err, s.silence(clients, swallow, false))
	}
	last := now()
	followed := make(chan error, 1)
	s.suite.tries.Go(func() {
		followed <- each(func(i int) error { return s.follow(ctx, clients[i].lost, sound) })
	})
	failed := each(func(i int) error { return clients[i].inStillness(ctx, s) })
	if !swallow {
		time.Sleep(last + s.Lease - now())
		failed = errors.Join(failed, s.silence(clients, swallow, false))
	}
	if failed = errors.Join(failed, <-followed, s.silence(clients, swallow, false)); failed != nil {
		return failed
	}
	return each(func(i int) error {
		for _, key := range []string{clients[i].released.Key, clients[i].free} {
			next, err := s.hold(ctx, sound, key)
			if err != nil {
				return fmt.Errorf("something was left behind: %w", err)
			}
			_, _ = next.release(ctx)
		}
		return nil
	})
}

// beforeStill opens a Locker in p with the plain-th client, which acquires two keys.
func (s *Scene) beforeStill(ctx context.Context, p *process, plain int) (*silenced, error) {
	far, err := s.behind(ctx, p, s.Lease, plain)
	if err != nil {
		return nil, err
	}
	c := &silenced{distant: far, free: FreshKey()}
	for _, lease := range []**remoteLease{&c.lost, &c.released} {
		if *lease, err = s.hold(ctx, far.remote, FreshKey()); err != nil {
			return c, err
		}
	}
	return c, nil
}

// silence begins or ends the standstill of the clients' networks, or of the servers.
func (s *Scene) silence(clients []*silenced, swallow, begin bool) (failed error) {
	for i, server := range s.Servers {
		for _, c := range clients {
			switch {
			case swallow && begin:
				c.wires[i].Silence(wire.ToServer, wire.ToClient)
			case swallow:
				c.wires[i].Silence()
			}
		}
		switch {
		case !swallow && begin:
			failed = errors.Join(failed, server.Pause())
		case !swallow:
			failed = errors.Join(failed, server.Resume())
		}
	}
	return failed
}

// inStillness checks that a release and a bounded acquisition return while no answer comes.
func (c *silenced) inStillness(ctx context.Context, s *Scene) error {
	soon, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	waits, err := c.begin(attempt{Key: c.free, Wait: s.Lease / 4})
	if err != nil {
		return err
	}
	tries, err := c.begin(attempt{Key: c.free, Wait: s.Lease / 4, Try: true})
	if err != nil {
		return err
	}
	if _, err := c.released.release(soon); err == nil {
		return errors.New("a release without an answer succeeded")
	} else if soon.Err() != nil {
		return fmt.Errorf("a release waits for the client: %w", err)
	}
	for _, asked := range []func(context.Context) (*remoteLease, error){waits, tries} {
		_, err := asked(soon)
		switch {
		case err == nil:
			return errors.New("an acquisition without an answer succeeded")
		case soon.Err() != nil:
			return fmt.Errorf("an acquisition waits for the client: %w", err)
		case errors.Is(err, context.DeadlineExceeded) && errors.Is(err, lock.ErrDown):
			return fmt.Errorf("the server need not be down when a context ends: %w", err)
		}
	}
	return nil
}
