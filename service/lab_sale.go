package service

import (
	"context"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// begin is called in the critical section, before the read, unless the read acquires the lock. Without fencing, the
// sale forgets the fence there.
func (s *Sale) begin(ctx context.Context) error {
	if s.lab.Unfenced {
		s.Fence = 0
	}
	return s.stops.at(ctx, AfterLock)
}

// think takes as long as the request says. It stands for the work of an order service between read and write: prices,
// limits, credit.
func (s *Sale) think(ctx context.Context) error {
	if err := s.stops.at(ctx, AfterRead); err != nil {
		return err
	}
	s.tell(Thinks)
	if s.lab.Hold > 0 {
		if err := driver.Sleep(ctx, s.lab.Hold); err != nil {
			return err
		}
	}
	if err := s.stops.at(ctx, BeforeWrite); err != nil {
		return err
	}
	s.tell(Writes)
	return nil
}

// A Nesting selects how a sale in the lab acquires the lock that it already holds. Empty means that the sale does not
// acquire it again.
type Nesting string

// The nestings.
const (
	NestedHolder   Nesting = "holder"   // with the holder's ctx: it re-enters, if the lock promises that
	NestedStranger Nesting = "stranger" // with a new ctx, like code that does not pass its ctx on: it waits for itself
)

// nest acquires the lock of the sale again, with the same options, and releases it.
func (s *Sale) nest(ctx context.Context, l lock.Locker, o lock.Options) error {
	if s.lab.Nested == "" {
		return nil
	}
	asking := ctx
	if s.lab.Nested == NestedStranger {
		asking = context.Background()
	}
	again := func(context.Context, lock.Fence) error { return nil }
	return lock.Do(asking, l, string(s.SKU), o, again)
}
