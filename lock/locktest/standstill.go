package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	in := func(plain int, still func([]*wire.Proxy) stillness) error {
		err := s.retry(ctx, func() error { return s.standStill(ctx, list[0].process, list[1], plain+1, still) })
		if err != nil {
			return fmt.Errorf("client %d: %w", plain+1, err)
		}
		return nil
	}
	swallowed := make([]error, len(s.Plain))
	var all sync.WaitGroup
	for plain := range s.Plain {
		all.Go(func() { swallowed[plain] = in(plain, s.swallow) })
	}
	all.Wait()
	failed := errors.Join(swallowed...)
	for plain := range s.Plain {
		if testing.Short() && plain < len(s.Plain)-1 {
			continue // the last one is the most patient
		}
		failed = errors.Join(failed, in(plain, s.stop))
	}
	return failed
}

// A stillness is a time without answers.
type stillness struct {
	begin func() error
	// grant lets the servers grant keys to others again, but only when a lease that was renewed at last has run out.
	grant func(last time.Duration) error
	end   func() error
}

// swallow makes the network of the proxies swallow everything. The servers serve others meanwhile.
func (s *Scene) swallow(wires []*wire.Proxy) stillness {
	each := func(directions ...wire.Direction) func() error {
		return func() error {
			for _, w := range wires {
				w.Silence(directions...)
			}
			return nil
		}
	}
	return stillness{each(wire.ToServer, wire.ToClient), func(time.Duration) error { return nil }, each()}
}

// stop makes the servers stand still.
func (s *Scene) stop([]*wire.Proxy) stillness {
	resume := func() (failed error) {
		for _, server := range s.Servers {
			failed = errors.Join(failed, server.Resume())
		}
		return failed
	}
	return stillness{
		begin: func() (failed error) {
			for _, server := range s.Servers {
				failed = errors.Join(failed, server.Pause())
			}
			return failed
		},
		grant: func(last time.Duration) error {
			time.Sleep(last + s.Lease - now())
			return resume()
		},
		end: resume,
	}
}

func (s *Scene) standStill(
	ctx context.Context, p *process, sound *remote, plain int, still func([]*wire.Proxy) stillness,
) error {
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
	quiet := still(far.wires)
	if err := quiet.begin(); err != nil {
		return err
	}
	last := now()
	followed := make(chan error, 1)
	s.suite.tries.Go(func() { followed <- s.follow(ctx, lost, sound) })
	free := FreshKey()
	err = s.inStillness(ctx, far.remote, released, free)
	err = errors.Join(err, quiet.grant(last), <-followed, quiet.end())
	if err != nil {
		return err
	}
	for _, key := range []string{released.Key, free} {
		next, err := sound.acquire(ctx, attempt{Key: key, Wait: s.Lease + s.timeout, Insist: true})
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
	waits, _, err := far.begin(attempt{Key: free, Wait: s.Lease / 4})
	if err != nil {
		return err
	}
	tries, _, err := far.begin(attempt{Key: free, Wait: s.Lease / 4, Try: true})
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
