// Package stack starts and stops what a run needs on this computer: Redis, ZooKeeper, MariaDB, instances of stock and nginx
// before them, each on a free port of 127.0.0.1, with all files in one temporary folder.
//
// Real servers are taken from PATH. Where redis-server is missing an embedded one stands in, where nginx is missing a small proxy
// does; what has no stand-in is reported with the reason. Every server can be paused, killed and restarted.
package stack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

var (
	errStopped = errors.New("the stack is stopped")
	// errOther ends a start that is no longer wanted; the other's error is the one to show.
	errOther = errors.New("another server did not start")
)

// A Stack is a set of servers with a beginning and an end. It is safe for concurrent use.
type Stack struct {
	Dir string // the temporary folder: NAME.log and NAME/ of each server

	options Options
	life    context.Context // ends when Stop begins
	end     context.CancelFunc
	once    sync.Once
	stopped error
	telling sync.Mutex

	mu       sync.Mutex
	servers  []*Server        // that have been ready, oldest first
	claims   []net.PacketConn // on their ports; see claim
	named    map[string]int
	missing  map[string]string
	starting sync.WaitGroup
}

// Start makes a Stack and starts the backends that are wanted, in parallel. What is not installed is no error: see [Stack.Missing].
// ctx bounds the start only; afterwards only Stop ends the servers. On error nothing is left running, and the folder is gone unless
// Options.Keep is set.
func Start(ctx context.Context, o Options) (*Stack, error) {
	dir, err := os.MkdirTemp(o.Parent, "stock-")
	if err != nil {
		return nil, fmt.Errorf("make the stack's folder: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("make the stack's folder: %w", err)
	}
	s := &Stack{Dir: dir, options: o, named: map[string]int{}, missing: map[string]string{}}
	s.life, s.end = context.WithCancel(context.Background())

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	failed := make([]error, len(o.Want))
	for i, kind := range o.Want {
		all.Go(func() {
			var missing *MissingError
			_, err := s.Add(ctx, kind)
			if err != nil && !errors.As(err, &missing) && !errors.Is(err, errOther) {
				failed[i] = err
				cancel(errOther)
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Add starts one more backend. The error of one that is not installed is a MissingError.
func (s *Stack) Add(ctx context.Context, kind Kind) (*Server, error) {
	build := map[Kind]builder{Redis: s.redis, ZooKeeper: s.zookeeper, MySQL: s.mariadb}[kind]
	if build == nil {
		return nil, fmt.Errorf("start %q: no such backend", kind)
	}
	return s.open(ctx, s.name(string(kind)), build)
}

// Missing says what was not found, by name of the server, with the reason and, where there is one, what stands in.
func (s *Stack) Missing() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.missing)
}

// Stop stops all servers, the front first, then the instances, then the backends, and removes the folder unless Options.Keep is
// set. A start that is under way is given up. It is idempotent, depends on no context, and takes at most 10 s for each of the three
// steps, usually less than two in all.
func (s *Stack) Stop() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.end()
		s.mu.Unlock()
		s.starting.Wait()
		var failed []error
		for t := front; t >= backend; t-- {
			failed = append(failed, s.stopTier(t))
		}
		s.disclaim()
		s.stopped = errors.Join(failed...)
		if !s.options.Keep {
			s.stopped = errors.Join(s.stopped, os.RemoveAll(s.Dir))
		}
	})
	return s.stopped
}

func (s *Stack) stopTier(t tier) error {
	var all sync.WaitGroup
	servers := s.servers // nothing is added any more
	failed := make([]error, len(servers))
	for i, server := range slices.Backward(servers) {
		if server.tier != t {
			continue
		}
		all.Go(func() {
			began := time.Now()
			failed[i] = server.Stop()
			s.tell(Event{server.Name, "stopped", time.Since(began), ""})
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

func (s *Stack) tell(e Event) {
	if s.options.Progress == nil {
		return
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	s.options.Progress(e)
}
