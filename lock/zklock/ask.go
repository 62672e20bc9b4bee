package zklock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// tries bounds what is done again after a connection broke or a folder vanished. Each of these waits for the server first.
const tries = 5

// begin counts work that is about to use the library, unless no more may.
func (g *generation) begin() bool {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if !g.closed {
		g.requests.Add(1)
	}
	return !g.closed
}

// hopeful reports whether a request made now may be answered soon.
func (g *generation) hopeful() bool {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.linked && g.outage.Err() == nil
}

// ask does work that waits for the library, which knows no contexts, until ctx ends, and then for linger, so that the work can clean
// up if the server is there. What comes later goes to late, if that is not nil. Work that was given up goes on until the server
// answers or the connection breaks, and its request may still be executed: the library sends what is queued when it has connected
// again.
func ask[T any](ctx context.Context, g *generation, linger time.Duration, work func() (T, error), late func(T)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if !g.begin() {
		return none, context.Cause(g.over)
	}
	answers, gone := make(chan answer), make(chan struct{})
	go func() {
		defer g.requests.Done()
		value, err := work()
		select {
		case answers <- answer{value, err}:
		case <-gone:
			if late != nil {
				late(value)
			}
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
	}
	defer close(gone)
	if linger > 0 && g.hopeful() {
		timer := time.NewTimer(linger)
		defer timer.Stop()
		select {
		case a := <-answers:
			return a.value, a.err
		case <-timer.C:
		}
	}
	return none, context.Cause(ctx)
}

// read asks what can be asked again when the connection broke. It may block for longer than ctx: call it inside ask.
func read[T any](ctx context.Context, g *generation, request func() (T, error)) (value T, err error) {
	for range tries {
		if ctx.Err() != nil {
			return value, context.Cause(ctx)
		}
		value, err = request()
		if answered(err) {
			return value, err
		}
		if err := g.linkedAgain(ctx); err != nil {
			return value, err
		}
	}
	return value, fmt.Errorf("%w: %w", errOutage, err)
}

// linkedAgain waits for a connection.
func (g *generation) linkedAgain(ctx context.Context) error {
	for {
		g.s.mu.Lock()
		linked, changed := g.linked, g.s.changed
		g.s.mu.Unlock()
		if linked {
			return nil
		}
		select {
		case <-changed:
		case <-g.over.Done():
			return context.Cause(g.over)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// answered reports whether err, or nil, is the server's answer. After any other error the request may have been executed or not,
// or may be yet.
func answered(err error) bool {
	if err == nil {
		return true
	}
	for _, said := range []error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrBadVersion,
		zk.ErrNoChildrenForEphemerals, zk.ErrBadArguments, zk.ErrInvalidPath,
	} {
		if errors.Is(err, said) {
			return true
		}
	}
	return false
}

// children lists a folder. See read.
func (g *generation) children(ctx context.Context, path string) ([]string, error) {
	return read(ctx, g, func() ([]string, error) {
		names, _, err := g.conn.Children(path)
		return names, err
	})
}
