package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Contender holds a key or waits for it. What its server does not tell is zero.
type Contender struct {
	Who       string        // Options.Owner, such as "instance/request-id"
	Since     time.Time     // when the holder got the key, when a waiter came; by the clock of whoever wrote it down
	Remaining time.Duration // of a holder: until the server frees the key if the lease is not renewed
	Fence     Fence         // of a holder
}

// A State is the holder of a key and its waiters at one moment, which is over when it is read.
type State struct {
	Holder  *Contender  // nil: nobody
	Waiters []Contender // in the order in which they will have it, as far as that can be known
	Scope   Scope       // whom it covers: Process is this process alone
}

// An Inspector can tell who holds a key.
//
// It reads and changes nothing, and promises nothing of the next moment: to be alone, acquire. Of the
// waiters of another process that uses [HandOver] it shows the one that stands for all of them.
type Inspector interface {
	// Inspect fails with what matches ErrDown if the server did not answer.
	Inspect(ctx context.Context, key string) (State, error)
}

// An Evictor can take a key away from its holder.
type Evictor interface {
	// Evict ends the holding of key, if there is one, lets the next in, and returns a fence that is larger than
	// that of every holder so far and not larger than that of any to come: once a store has seen it, it refuses all
	// that the evicted one writes.
	//
	// The evicted holder is not asked. It learns of it at its next renewal at the latest, as ErrTaken or
	// ErrExpired, or if it does not renew, when its lease runs out. Until then it works: only the fence keeps it
	// from writing.
	//
	// After an error that matches ErrDown it is not known whether somebody was evicted; to try again may evict the
	// next one.
	Evict(ctx context.Context, key string) (Fence, error)
}

// A Lister can tell which keys are held or waited for now, in no particular order. It is for people: it may cost a
// look at every key of the server.
type Lister interface {
	Keys(ctx context.Context) ([]string, error)
}

// Inspect asks l, which may be decorated, who holds key. If l cannot tell, the error matches errors.ErrUnsupported.
func Inspect(ctx context.Context, l Locker, key string) (State, error) {
	if i, ok := l.(Inspector); ok {
		return i.Inspect(ctx, key)
	}
	return State{}, fmt.Errorf("inspect: %w by this lock", errors.ErrUnsupported)
}

// Evict takes key away from its holder; see [Evictor]. If l, which may be decorated, cannot do that, the error matches
// errors.ErrUnsupported.
func Evict(ctx context.Context, l Locker, key string) (Fence, error) {
	if e, ok := l.(Evictor); ok {
		return e.Evict(ctx, key)
	}
	return NoFence, fmt.Errorf("evict: %w by this lock", errors.ErrUnsupported)
}

// Inspect and Evict pass through a decorator.

func (o *observed) Inspect(ctx context.Context, key string) (State, error) {
	return Inspect(ctx, o.Locker, key)
}

func (o *observed) Evict(ctx context.Context, key string) (Fence, error) {
	return Evict(ctx, o.Locker, key)
}
