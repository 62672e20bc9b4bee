package service

import (
	"context"
	"errors"

	"example.com/stock/lock"
)

// Other use cases than those of this package work on the same stores (package order). What they need of this one is
// here, so that a store is open, slow or overloaded in the same words for all.

// Open returns nil if the store can be sold from and its orders can be believed. The error is a lock.DownError, or a
// DataLostError.
func (s StoreConfig) Open(ctx context.Context) error { return s.open(ctx) }

// Busy is err, unless all that it says is that a server which is up did not finish in time, and that nothing was done:
// that is lock.ErrOverloaded. A lock that was not free in time is another thing.
func Busy(err error, needs ...Dependency) error {
	if errors.Is(err, lock.ErrHeld) {
		return slow(err, needs...)
	}
	return overdue(slow(err, needs...))
}
