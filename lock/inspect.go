package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Contender holds a key or waits for it. Fields that the server does not report are zero.
type Contender struct {
	Who       string        // Options.Owner, such as "instance/request-id"
	Since     time.Time     // when the holder got the key, or the waiter came, by the clock that the lock uses for it
	Remaining time.Duration // of a holder: time until the server frees the key if the lease is not renewed
	Fence     Fence         // of a holder
	Kept      bool          // of a holder: its process keeps the lease, and no caller has it; see HandOver
}

// A State is the holder of a key and its waiters at one moment. It may have changed before the caller reads it.
type State struct {
	Holder  *Contender  // nil: none
	Waiters []Contender // in the order in which they will get the key, as far as that is known
	Scope   Scope       // which callers it includes; Process means this process alone
}

// An Inspector can report the holder of a key.
//
// The state may have changed when the caller gets it: a caller that needs the key must acquire it. A process that uses
// [HandOver] appears as only one waiter.
type Inspector interface {
	// Inspect returns an error that matches ErrDown if the server did not answer.
	Inspect(ctx context.Context, key string) (State, error)
}

// A BatchInspector can report the holders of many keys in far fewer round trips than one for each key.
type BatchInspector interface {
	// InspectAll is Inspect for each of keys, in their order. After an error it returns the states of the first keys,
	// or of none.
	InspectAll(ctx context.Context, keys []string) ([]State, error)
}

// An Evictor can take a key away from its holder.
type Evictor interface {
	// Evict takes key away from its holder, if there is one, lets the next waiter acquire it, and returns a fence. The
	// fence is larger than that of every holder so far, and not larger than that of any later holder. Once a store has
	// seen it, the store refuses every write of the evicted holder.
	//
	// The evicted holder does not notice at once. Its lease ends with ErrTaken or ErrExpired at the next renewal or, if
	// it is not renewed, when it runs out. Until then the holder continues its work, and only the fence stops its
	// writes.
	//
	// After an error that matches ErrDown it is not known whether a holder was evicted. A retry may evict the next
	// holder.
	Evict(ctx context.Context, key string) (Fence, error)
}

// A Lister can list the keys that are held or waited for, in no particular order. It is meant for people: it may read
// every key of the server.
type Lister interface {
	Keys(ctx context.Context) ([]string, error)
}

// A Checker can try at the server what its holders and waiters need.
type Checker interface {
	// Check sends the requests of a holder and a waiter for key, which no caller must use. It returns an ErrDenied if
	// the server refuses one of them for good, and leaves nothing behind that holds the key.
	Check(ctx context.Context, key string) error
}

// Check tries whether the server permits what l needs; see [Checker]. If l is no Checker, Check acquires and releases
// the key once.
func Check(ctx context.Context, l Locker, key string) error {
	if c, ok := l.(Checker); ok {
		return c.Check(ctx, key)
	}
	lease, err := l.Acquire(ctx, key, Options{TryOnce: true, Owner: "check"})
	if err != nil {
		return err
	}
	return lease.Release()
}

// Inspect calls l's Inspect; l may be wrapped. If l is no [Inspector], the error matches errors.ErrUnsupported.
func Inspect(ctx context.Context, l Locker, key string) (State, error) {
	if i, ok := l.(Inspector); ok {
		return i.Inspect(ctx, key)
	}
	return State{}, fmt.Errorf("inspect: %w by this lock", errors.ErrUnsupported)
}

// InspectAll calls l's InspectAll; l may be wrapped. If l is no [BatchInspector], InspectAll inspects one key after the
// other.
func InspectAll(ctx context.Context, l Locker, keys []string) ([]State, error) {
	if b, ok := l.(BatchInspector); ok {
		return b.InspectAll(ctx, keys)
	}
	states := make([]State, 0, len(keys))
	for _, key := range keys {
		state, err := Inspect(ctx, l, key)
		if err != nil {
			return states, err
		}
		states = append(states, state)
	}
	return states, nil
}

// Evict calls l's Evict; l may be wrapped. If l is no [Evictor], the error matches errors.ErrUnsupported.
func Evict(ctx context.Context, l Locker, key string) (Fence, error) {
	if e, ok := l.(Evictor); ok {
		return e.Evict(ctx, key)
	}
	return NoFence, fmt.Errorf("evict: %w by this lock", errors.ErrUnsupported)
}

// A wrapped locker can still be inspected and evicted.

func (o *observed) Inspect(ctx context.Context, key string) (State, error) {
	return Inspect(ctx, o.Locker, key)
}

func (o *observed) InspectAll(ctx context.Context, keys []string) ([]State, error) {
	return InspectAll(ctx, o.Locker, keys)
}

func (o *observed) Check(ctx context.Context, key string) error { return Check(ctx, o.Locker, key) }

func (o *observed) Evict(ctx context.Context, key string) (Fence, error) {
	return Evict(ctx, o.Locker, key)
}
