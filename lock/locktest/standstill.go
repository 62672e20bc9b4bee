package locktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
)

// standstill ends the answers to a process that holds, waits and asks, once by a network that swallows everything and
// once by servers that stand still. The client of the process has the settings of its library, see Harness.Plain.
func standstill(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	// A network that swallows everything concerns one client, and servers that stand still concern all.
	in := func(plain int, swallow bool) error {
		err := s.retry(ctx, func() error { return s.standStill(ctx, list[0].process, list[1], plain+1, swallow) })
		if err != nil {
			return fmt.Errorf("client %d: %w", plain+1, err)
		}
		return nil
	}
	failed := parallel(len(s.Plain), len(s.Plain), func(plain int) error { return in(plain, true) })
	for plain := range s.Plain {
		if testing.Short() && plain < len(s.Plain)-1 {
			continue // the last one is the most patient
		}
		failed = errors.Join(failed, in(plain, false))
	}
	return failed
}

// standStill makes the network of one client swallow everything, or the servers stand still. In the second case the
// servers grant keys to others again only when the lease that is to be lost has run out.
func (s *Scene) standStill(ctx context.Context, p *process, sound *remote, plain int, swallow bool) error {
	far, err := s.behind(ctx, p, plain)
	if err != nil {
		return err
	}
	defer far.close(ctx)
	brief, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	lost, err := far.acquire(brief, attempt{Key: FreshKey(), Wait: s.timeout, Insist: true})
	if err != nil {
		return err
	}
	released, err := far.acquire(brief, attempt{Key: FreshKey(), Wait: s.timeout, Insist: true})
	if err != nil {
		return err
	}
	time.Sleep(s.Lease / 2) // a lease that is renewed has been renewed, and the next renewal gets no answer
	still := func(begin bool) (failed error) {
		for i, server := range s.Servers {
			switch {
			case swallow && begin:
				far.wires[i].Silence(wire.ToServer, wire.ToClient)
			case swallow:
				far.wires[i].Silence()
			case begin:
				failed = errors.Join(failed, server.Pause())
			default:
				failed = errors.Join(failed, server.Resume())
			}
		}
		return failed
	}
	if err := still(true); err != nil {
		return err
	}
	last := now()
	followed := make(chan error, 1)
	s.suite.tries.Go(func() { followed <- s.follow(ctx, lost, sound) })
	free := FreshKey()
	failed := s.inStillness(ctx, far.remote, released, free)
	if !swallow {
		time.Sleep(last + s.Lease - now())
		failed = errors.Join(failed, still(false))
	}
	if failed = errors.Join(failed, <-followed, still(false)); failed != nil {
		return failed
	}
	for _, key := range []string{released.Key, free} {
		next, err := s.next(ctx, sound, key)
		if err != nil {
			return fmt.Errorf("something was left behind: %w", err)
		}
		_, _ = next.release(ctx)
	}
	return nil
}

// inStillness checks that a release and a bounded acquisition return while no answer comes.
func (s *Scene) inStillness(ctx context.Context, far *remote, released *remoteLease, free string) error {
	soon, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	waits, err := far.begin(attempt{Key: free, Wait: s.Lease / 4})
	if err != nil {
		return err
	}
	tries, err := far.begin(attempt{Key: free, Wait: s.Lease / 4, Try: true})
	if err != nil {
		return err
	}
	if _, err := released.release(soon); err == nil {
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
