package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/stack/wire"
)

// A Scene is what one sentence works with: a key, and whoever contends for it. All that it opens ends with it.
type Scene struct {
	Harness
	Key string // that nobody else uses

	inside   func() lock.Locker // opens a Locker in this process
	suite    *suite             // nil: no processes
	patience time.Duration      // how long what must happen may take
	storm    time.Duration      // no acquisition of very many begins after this
	hurry    bool               // it is expected to fail, so once or twice is enough
	seen     string             // what else there is to tell when it is true

	mu      sync.Mutex
	opened  int
	cast    []*process
	remotes []*remote
	wires   []*wire.Proxy
	closers []func() error
}

// calm is the lease of sentences that do not wait for its end: no computer is so busy that it loses it.
const calm = 30 * time.Second

func newScene(b Harness, s *suite) *Scene {
	scene := &Scene{Harness: b, Key: FreshKey(), suite: s, patience: patience, storm: 2 * time.Minute}
	if testing.Short() {
		scene.storm = time.Second / 2
	}
	if b.Start == nil {
		scene.inside = func() lock.Locker {
			l, closer, err := b.Open(nil, calm)
			if err != nil {
				return broke{err}
			}
			scene.closers = append(scene.closers, closer)
			return l
		}
	}
	return scene
}

// Locker is another independent Locker: in one of three other processes in turn, if there are processes.
func (s *Scene) Locker(ctx context.Context) lock.Locker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside != nil {
		return s.inside()
	}
	if s.opened++; len(s.cast) < 3 {
		p, err := s.suite.process()
		if err != nil {
			return broke{err}
		}
		s.cast = append(s.cast, p)
	}
	r, err := s.cast[s.opened%len(s.cast)].open(ctx, s.Harness, addrs(s.Servers), calm)
	if err != nil {
		return broke{err}
	}
	s.remotes = append(s.remotes, r)
	return r
}

// broke is a Locker that could not be opened.
type broke struct{ err error }

func (b broke) Acquire(context.Context, string, lock.Options) (*lock.Lease, error) { return nil, b.err }

// bare is a process that nobody else uses meanwhile, with no Locker in it yet.
func (s *Scene) bare() (*process, error) {
	p, err := s.suite.process()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cast = append(s.cast, p)
	return p, nil
}

// process is a Locker in such a process.
func (s *Scene) process(ctx context.Context, addrs []string, lease time.Duration) (*remote, error) {
	p, err := s.bare()
	if err != nil {
		return nil, err
	}
	r, err := p.open(ctx, s.Harness, addrs, lease)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remotes = append(s.remotes, r)
	return r, nil
}

// processes are n of them, straight on the servers.
func (s *Scene) processes(ctx context.Context, n int, lease time.Duration) ([]*remote, error) {
	list := make([]*remote, n)
	for i := range list {
		var err error
		if list[i], err = s.process(ctx, addrs(s.Servers), lease); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// wired puts a proxy before each server, and returns where they listen.
func (s *Scene) wired() ([]*wire.Proxy, []string, error) {
	var list []*wire.Proxy
	var at []string
	for _, server := range s.Servers {
		p, err := wire.Listen(server.Addr, s.Wire)
		if err != nil {
			return nil, nil, err
		}
		list, at = append(list, p), append(at, p.Addr())
		s.mu.Lock()
		s.wires = append(s.wires, p)
		s.mu.Unlock()
	}
	return list, at, nil
}

// end closes what the scene opened. Processes that live are given back.
func (s *Scene) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var failed []error
	for _, w := range s.wires {
		w.Silence() // or what is closed now would wait for its server
	}
	for _, r := range s.remotes {
		if !r.usable() {
			continue
		}
		if _, _, err := r.call(ctx, request{Do: "close", Locker: r.locker}); errors.Is(err, errGone) {
			failed = append(failed, fmt.Errorf("close: %w", err))
		}
	}
	for _, w := range s.wires {
		failed = append(failed, w.Close())
	}
	for _, p := range s.cast {
		s.suite.giveBack(p)
	}
	for _, closer := range s.closers {
		failed = append(failed, closer())
	}
	return errors.Join(failed...)
}
