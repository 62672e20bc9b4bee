package driver

import (
	"cmp"
	"context"
	"sync"
	"time"

	"example.com/stock/lock"
)

// repeatEvery is the pause between two tries of a release. There are few such keys: those that were held or requested
// when the server stopped answering.
const repeatEvery = 200 * time.Millisecond

// A Life is the time of a lock from its constructor to its Close. It ends the waits at Close. In the background, it
// repeats releases that the server did not answer.
type Life struct {
	ctx context.Context // ends with ErrClosed
	end context.CancelCauseFunc

	mu    sync.Mutex // guards waits; nothing is added to busy after the end
	busy  sync.WaitGroup
	waits map[*context.CancelCauseFunc]bool // that have not ended; by address, because a func is no key
}

// NewLife begins a Life. Close it.
func NewLife() *Life {
	ctx, end := context.WithCancelCause(context.Background())
	return &Life{ctx: ctx, end: end, waits: make(map[*context.CancelCauseFunc]bool)}
}

// MayAcquire returns an error if no acquisition may begin, because the lock is closed, the key is invalid, or ctx has
// ended.
func (l *Life) MayAcquire(ctx context.Context, key string) error {
	return cmp.Or(context.Cause(l.ctx), MayAcquire(ctx, key))
}

// Wait returns a ctx for a wait, which ends with ctx or, with [lock.ErrClosed] as its cause, at Close. The func must be
// called once, when the wait has ended and has left nothing behind.
func (l *Life) Wait(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		cancel(context.Cause(l.ctx))
		return ctx, func() {}
	}
	l.busy.Add(1)
	l.waits[&cancel] = true // every acquisition is a wait, and context.AfterFunc would cost each of them more
	return ctx, func() {
		l.mu.Lock()
		delete(l.waits, &cancel)
		l.mu.Unlock()
		cancel(nil)
		l.busy.Done()
	}
}

// Repeat calls release until it returns true, or until the time until. It pauses 200 ms before each call, even the
// first, because the caller has just tried. Each call is limited by [lock.ReleaseTimeout]. After Close, Repeat does
// nothing.
func (l *Life) Repeat(until time.Time, release func(context.Context) (done bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	l.busy.Go(func() {
		for done := false; !done && time.Now().Before(until) && Sleep(l.ctx, repeatEvery) == nil; {
			ctx, cancel := context.WithTimeout(l.ctx, lock.ReleaseTimeout)
			done = release(ctx)
			cancel()
		}
	})
}

// Close ends all waits. It drops the remaining releases; their keys expire. It cancels releases that are under way. It
// returns when all of them have ended, so that the client can be closed next.
func (l *Life) Close() {
	l.mu.Lock()
	l.end(lock.ErrClosed)
	for cancel := range l.waits {
		(*cancel)(lock.ErrClosed)
	}
	l.mu.Unlock()
	l.busy.Wait()
}

// Sleep pauses for d, or until ctx ends. If ctx has ended, even at the same moment as d, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return context.Cause(ctx)
}
