// Package driver is for those who write a lock for a server: what its [lock.Locker] may offer beyond Acquire, and what
// every driver does in the same way. Users of locks need only package lock, and the package of one driver.
//
// A driver acquires at its server, makes a lease with [lock.NewLease], and calls [lock.Lease.KeepAlive] if the lease
// has a time limit, or [lock.Lease.Linger] if its server does not free a key by itself. The suite of package locktest
// proves the rest of the contract.
package driver

import (
	"context"

	"example.com/stock/lock"
)

// FenceRange is the distance between two fences of a key, in every driver that is a FenceRanger.
const FenceRange = 64

// A FenceRanger is a locker whose fences have gaps: the FenceRange()-1 numbers after each fence are used for no other
// fence, nor by Evict. [lock.HandOver] gives them to the local holders of one lease.
type FenceRanger interface {
	lock.Locker
	FenceRange() uint64
}

// An Inspector can report the holders of keys.
//
// A state may have changed when the caller gets it: a caller that needs the key must acquire it. A process that uses
// [lock.HandOver] appears as only one waiter.
type Inspector interface {
	// InspectAll returns the states of keys, in their order, in fewer round trips than one for each key if possible.
	// After an error it returns the states of the first keys, or of none. The error matches ErrDown if the server did
	// not answer.
	InspectAll(ctx context.Context, keys []string) ([]lock.State, error)
}

// An Evictor can take a key away from its holder. See [lock.Evict] for what Evict must do.
type Evictor interface {
	Evict(ctx context.Context, key string) (lock.Fence, error)
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
