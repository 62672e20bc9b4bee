package redislock

import (
	"context"
	"errors"
	"time"

	"example.com/stock/lock"
)

// unknownLife is how long a request without an answer may still be done: it may wait in the socket of a server that is
// stopped, and be done when the server goes on.
const unknownLife = time.Hour

var errLookAgain = lock.Down("look for a late request", errors.New("not found yet"))

// A cleanup repeats releases in the background until the server answers.
type cleanup struct{ *lock.Sweeper }

func newCleanup() *cleanup { return &cleanup{lock.NewSweeper()} }

// close gives up. The keys that are left run out by themselves.
func (c *cleanup) close() { c.Close() }

// repeat calls release in the background until the server has answered, or until the time until.
func (c *cleanup) repeat(release func(context.Context) error, until time.Time) {
	c.Add(until, func(ctx context.Context) bool { return !errors.Is(release(ctx), lock.ErrDown) })
}

// persist returns a function that calls release, and if the server does not answer repeats it in the background until
// the server does or the lease has run out. The release must compare the owner: much may have happened when the server
// is back.
func (c *cleanup) persist(release func(context.Context) error, lease time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		err := release(ctx)
		if errors.Is(err, lock.ErrDown) {
			c.repeat(release, time.Now().Add(lease))
		}
		return err
	}
}

// undo takes back what a request without an answer has done, or will do yet. The release deletes the key if it is
// ours, and then returns nil.
//
// It releases once before it returns, on a context of its own. If that finds nothing, nothing is proven: Redis reads
// its connections in no promised order, and the request may come later. But a server that has answered has read all
// that had come before, so a second answer is proof. Therefore undo looks again in the background until it has found
// the key or has had two answers.
func (c *cleanup) undo(ctx context.Context, release func(context.Context) error) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	answers := 0
	look := func(ctx context.Context) error {
		err := release(ctx)
		if err == nil || errors.Is(err, lock.ErrDown) {
			return err
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
