package service

import (
	"context"

	"example.com/stock/lock"
)

// A Nesting is how work, in the lab, asks for the lock that it holds already. The empty one does not.
type Nesting string

// The nestings.
const (
	NestedHolder   Nesting = "holder"   // as the holder that it is: re-enters, where the lock promises that
	NestedStranger Nesting = "stranger" // with a context of its own, as code that passes none on: it waits for itself
)

// nest asks for the lock again if the lab wants that, and then works.
func (s *Sale) nest(ctx context.Context, l lock.Locker, work func(context.Context) error) error {
	if s.lab.Nested == "" {
		return work(ctx)
	}
	asking := ctx
	if s.lab.Nested == NestedStranger {
		asking = context.Background()
	}
	return lock.Do(asking, l, string(s.SKU), s.Options, func(context.Context, lock.Fence) error { return work(ctx) })
}
