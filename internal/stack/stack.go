// Package stack starts and stops a demonstration on this computer: the servers of package server, instances of stock
// and of the order service, and nginx or HAProxy in front of them. If nginx is missing, a small proxy stands in.
package stack

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/lock/locktest/server"
)

// errOther cancels the other starts when one fails. That one's error is returned.
var errOther = errors.New("another server did not start")

// A Stack is a set of servers with a beginning and an end. It is safe for concurrent use. [server.Stack.Stop] stops
// nginx first, then the instances, then the backends.
type Stack struct {
	*server.Stack
	options Options

	mu     sync.Mutex
	checks map[string]func(context.Context) error // of the instances, by name
}

// Options configure a Stack. The zero value means no backend.
type Options struct {
	server.Options

	Binary string // the stock program; default: os.Executable()

	// Env has variables (KEY=value) for every instance, after the addresses of the backends. STOCK_* of this process
	// are not passed on.
	Env []string

	// AnyPort makes instances avoid the usual ports. A program of the user may listen there while an instance is dead,
	// because the reservation excludes only other stacks.
	AnyPort bool
}

// Start is [server.Start] for a Stack.
func Start(ctx context.Context, o Options) (*Stack, error) {
	servers, err := server.Start(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	return &Stack{Stack: servers, options: o, checks: make(map[string]func(context.Context) error)}, nil
}

// check remembers what tells whether an instance is ready.
func (s *Stack) check(instance string, ready func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks[instance] = ready
}

// Ready returns nil if an instance answers and reports each of its servers up, except those that the stack has killed
// or stopped. Otherwise the error has the reason.
func (s *Stack) Ready(ctx context.Context, instance *server.Server) error {
	s.mu.Lock()
	ready := s.checks[instance.Name]
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	return ready(ctx)
}

// readyBound is how long one question to an instance may take.
const readyBound = 5 * time.Second

// AwaitReady waits until each instance is Ready. It takes a moment after a server or an instance was frozen or started.
func (s *Stack) AwaitReady(ctx context.Context, instances ...*server.Server) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for _, instance := range instances {
		for err := s.Ready(ctx, instance); err != nil; err = s.Ready(ctx, instance) {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return fmt.Errorf("%s is not ready: %w", instance.Name, err)
			}
		}
	}
	return nil
}
