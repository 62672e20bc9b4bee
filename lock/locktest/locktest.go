// Package locktest is the conformance suite of the lock contract: a table of sentences that every lock has to make true.
//
// A sentence returns an error instead of failing a test, so that a lock broken on purpose can prove that it bites. [Run] puts a Locker to
// those that need one process only, [Conform] a strategy with its servers to all of them: contenders are then processes of
// their own, which the suite kills, pauses and cuts off.
package locktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/lock"
)

// A Clause is one clause of the contract.
type Clause struct {
	Name     string
	Rule     string // what must be true; the failure message and the documentation
	Applies  func(Harness) bool
	Check    func(context.Context, *Scene) error
	Restarts bool // it kills servers, and needs its own
}

// Run checks every sentence that applies to promise and needs no other process. open makes an independent Locker on the same servers.
func Run(t *testing.T, promise lock.Promise, open func(testing.TB) lock.Locker) {
	t.Helper()
	b := Harness{Promise: promise}
	for _, s := range Clauses() {
		t.Run(s.Name, func(t *testing.T) {
			if !s.Applies(b) {
				t.Skip("not promised, or needs processes")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			scene := newScene(b, nil)
			scene.inside = func() lock.Locker { return open(t) }
			if err := s.Check(ctx, scene); err != nil {
				t.Errorf("%s: %v", s.Rule, err)
			}
		})
	}
}

// FreshKey is a key that no other call returns, in this process or another.
func FreshKey() string {
	return fmt.Sprintf("key-%d-%d-%d", time.Now().UnixNano(), os.Getpid(), serial.Add(1))
}

var serial atomic.Int64

// patience is how long something that must happen may take, on a busy computer.
const patience = 15 * time.Second

// once tries once, and again while the server is too busy to answer.
func once(ctx context.Context, l lock.Locker, key string) (*lock.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		lease, err := l.Acquire(ctx, key, lock.Options{TryOnce: true})
		if !errors.Is(err, lock.ErrDown) || ctx.Err() != nil {
			return lease, err
		}
		time.Sleep(10 * time.Millisecond) // one that is gone says so at once
	}
}

// insist acquires also from a lock that answers busy, and from a server that is too busy to answer.
func insist(ctx context.Context, l lock.Locker, key string) (*lock.Lease, error) {
	for began := time.Now(); ; {
		lease, err := l.Acquire(ctx, key, lock.Options{})
		switch {
		case err == nil || ctx.Err() != nil:
			return lease, err
		case errors.Is(err, lock.ErrHeld):
		case errors.Is(err, lock.ErrDown) && time.Since(began) < patience:
			time.Sleep(10 * time.Millisecond) // one that is gone says so at once
		default:
			return nil, err
		}
	}
}

// isFree fails if the key cannot be had at once from a new Locker.
func isFree(ctx context.Context, s *Scene) error {
	lease, err := once(ctx, s.Locker(ctx), s.Key)
	if err != nil {
		return fmt.Errorf("something was left behind: %w", err)
	}
	return lease.Release()
}

// over is whether err says that the key was not its holder's any more: known before, or learnt from the server.
func over(err error) bool {
	return errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrExpired) || errors.Is(err, lock.ErrTaken)
}

// mostly tries up to n times, and fails if it never succeeds. It is for sentences about time: a busy computer may run a timer late, or stop
// a process for longer than a lease. It does not do so every time, and a lock that is wrong is wrong
// every time.
func (s *Scene) mostly(ctx context.Context, n int, try func() error) error {
	if s.hurry {
		n = min(n, 2)
	}
	var failed error
	for range n {
		err := try()
		if err == nil {
			return nil
		}
		if failed = errors.Join(failed, err); ctx.Err() != nil {
			break
		}
	}
	return failed
}
