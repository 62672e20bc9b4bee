package request

import (
	"cmp"
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

var errMayCome = driver.Down("take back a request", errors.New("the client may still send it"))

// A Cleanup is the life of a lock: it repeats releases in the background until the server answers.
type Cleanup struct {
	*driver.Life
	invalid error // names an option with an invalid value
}

// NewCleanup begins a Cleanup. Close it. invalid, if not nil, is the error of every acquisition.
func NewCleanup(invalid error) *Cleanup { return &Cleanup{driver.NewLife(), invalid} }

// MayAcquire returns an error if no acquisition of key may begin.
func (c *Cleanup) MayAcquire(ctx context.Context, key string) error {
	return cmp.Or(c.invalid, c.Life.MayAcquire(ctx, key))
}

// IsAnswer reports whether the server answered a release that returned err. That the user lacks a right is an answer:
// another try would not change it.
func IsAnswer(err error) bool { return !errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrDenied) }

// Settle calls first, and then again in the background, until one of them has deleted our key, which is nil, or there
// were so many answers, or until the time until. It returns the result of first. Both release the key, and must compare
// the owner, because another caller may have the key by then.
func (c *Cleanup) Settle(
	ctx context.Context, answers int, until time.Time, first, again func(context.Context) error,
) error {
	settled := func(err error) bool {
		if IsAnswer(err) {
			answers--
		}
		return err == nil || answers <= 0
	}
	err := first(ctx)
	if !settled(err) {
		c.Repeat(until, func(ctx context.Context) bool { return settled(again(ctx)) })
	}
	return err
}

// Free calls release. If the server does not answer, it repeats release in the background until the server answers or
// the lease has run out.
func (c *Cleanup) Free(ctx context.Context, lease time.Duration, release func(context.Context) error) error {
	return c.Settle(ctx, 1, time.Now().Add(lease), release, release)
}

// Undo takes back a request without a reply, which the server may have executed or may still execute. release must
// delete the key if it is ours, and return nil only then.
//
// Undo releases once before it returns, with its own context. If the key is not found, the request may still arrive
// later, because Redis reads its connections in no defined order. But a server that has answered once has read
// everything that arrived before that answer, so a second answer proves that the request will not come. Until the
// client has given up the request it may still send it, so only later answers count; see Ask for underWay.
func (c *Cleanup) Undo(ctx context.Context, underWay *atomic.Int32, release func(context.Context) error) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	look := func(ctx context.Context) error {
		mayCome := underWay.Load() > 0
		if err := release(ctx); !mayCome {
			return err
		}
		return errMayCome
	}
	_ = c.Settle(detached, 2, time.Now().Add(unknownLife), look, look)
}
