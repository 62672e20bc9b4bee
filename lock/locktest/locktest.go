// Package locktest is the conformance suite of the lock contract: a table of sentences that every lock has to make true.
//
// A sentence returns an error instead of failing a test, so that a lock broken on purpose can prove that it bites.
package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/lock"
)

// A Sentence is one clause of the contract.
type Sentence struct {
	Name    string
	Rule    string // what must be true; the failure message and the documentation
	Applies func(lock.Promise) bool
	Check   func(context.Context, Bench) error
}

// A Bench is what a sentence works with.
type Bench struct {
	// Open makes an independent Locker on the same servers, as another process has.
	Open func() lock.Locker
	// Key is a key that nobody else uses.
	Key string
}

// Run checks every sentence that applies to promise. open makes an independent Locker on the same servers.
func Run(t *testing.T, promise lock.Promise, open func(testing.TB) lock.Locker) {
	t.Helper()
	for _, s := range Sentences() {
		t.Run(s.Name, func(t *testing.T) {
			if !s.Applies(promise) {
				t.Skip("not promised")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := s.Check(ctx, Bench{func() lock.Locker { return open(t) }, FreshKey()}); err != nil {
				t.Errorf("%s: %v", s.Rule, err)
			}
		})
	}
}

// FreshKey is a key that no other call returns.
func FreshKey() string { return fmt.Sprintf("key-%d-%d", time.Now().UnixNano(), serial.Add(1)) }

var serial atomic.Int64

func always(lock.Promise) bool      { return true }
func exclusive(p lock.Promise) bool { return p.Exclusive }
func blocking(p lock.Promise) bool  { return p.Exclusive && p.Blocking }
func fenced(p lock.Promise) bool    { return p.Exclusive && p.Fenced }
func fair(p lock.Promise) bool      { return p.Fair }

// patience is how long something that must happen may take, on a busy computer.
const patience = 15 * time.Second

// once tries once.
func once(ctx context.Context, l lock.Locker, key string) (*lock.Lease, error) {
	ctx, cancel := context.WithTimeout(lock.NoWait(ctx), patience)
	defer cancel()
	return l.Acquire(ctx, key)
}

// insist acquires also from a lock that answers busy.
func insist(ctx context.Context, l lock.Locker, key string) (*lock.Lease, error) {
	for {
		lease, err := l.Acquire(ctx, key)
		if err == nil || !errors.Is(err, lock.ErrHeld) || ctx.Err() != nil {
			return lease, err
		}
	}
}

// isFree fails if key cannot be had at once from a new Locker.
func isFree(ctx context.Context, b Bench) error {
	lease, err := once(ctx, b.Open(), b.Key)
	if err != nil {
		return fmt.Errorf("something was left behind: %w", err)
	}
	return lease.Release()
}
