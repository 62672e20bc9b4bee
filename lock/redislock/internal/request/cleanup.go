package request

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// unknownLife is how long a request without a reply may still be executed. It may wait in the socket of a stopped
// server until the server continues.
const unknownLife = time.Hour

var errLookAgain = driver.Down("look for a late request", errors.New("not found yet"))

// A Cleanup repeats releases in the background until the server answers. It ends with its lock.
type Cleanup struct{ *driver.Life }

// NewCleanup begins a Cleanup. Close it.
func NewCleanup() *Cleanup { return &Cleanup{driver.NewLife()} }

// repeat calls release in the background until the server answers, or until the time until.
func (c *Cleanup) repeat(release func(context.Context) error, until time.Time) {
	c.Repeat(until, func(ctx context.Context) bool { return IsAnswer(release(ctx)) })
}

// IsAnswer reports whether the server answered a release that returned err. That the user lacks a right is an answer:
// another try would not change it.
func IsAnswer(err error) bool { return !errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrDenied) }

// Persist returns a function that calls release. If the server does not answer, the function repeats release in the
// background until the server answers or the lease has run out. release must compare the owner, because another caller
// may have the key by then.
func (c *Cleanup) Persist(release func(context.Context) error, lease time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		err := release(ctx)
		if errors.Is(err, lock.ErrDown) {
			c.repeat(release, time.Now().Add(lease))
		}
		return err
	}
}

// Undo takes back a request without a reply, which the server may have executed or may still execute. release must
// delete the key if it is ours, and return nil only then.
//
// Undo releases once before it returns, with its own context. If the key is not found, the request may still arrive
// later, because Redis reads its connections in no defined order. But a server that has answered once has read
// everything that arrived before that answer, so a second answer proves that the request will not come. Therefore
// Undo releases again in the background until it has found the key or has had two answers. Until the client has given
// up the request it may still send it, so only later answers count; see Ask for underWay.
func (c *Cleanup) Undo(ctx context.Context, underWay *atomic.Int32, release func(context.Context) error) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	answers := 0
	look := func(ctx context.Context) error {
		mayCome := underWay.Load() > 0
		err := release(ctx)
		switch {
		case errors.Is(err, lock.ErrDown):
			return err
		case mayCome:
			return errLookAgain
		case err == nil:
			return nil
		}
		if answers++; answers < 2 {
			return errLookAgain
		}
		return nil
	}
	if look(detached) != nil {
		c.repeat(look, time.Now().Add(unknownLife))
	}
}
