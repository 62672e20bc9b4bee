package service

import (
	"context"
	"crypto/rand"
	"time"
)

// An Origin names the data that a store holds, so that a store which lost it can be told from one which never had
// any. It is written in the store itself, before the first stock, and lost with it. See
// docs/adr/0013-a-store-that-lost-its-data.md.
type Origin struct {
	ID string // random; empty: the store has no origin, and so no data that this service knows of
	// Generation orders the origins of one store. The program makes the first, 1. A person who sets the stock of a
	// store without data makes a later one: the time in seconds by the clock of the store's server, or one more than
	// the last. The clocks of instances differ, so that one of them could make one that others remember as older.
	Generation uint64
	Lost       bool // nothing is sold until a person sets the stock: an instance remembered another origin
}

// None reports whether the store has no origin.
func (o Origin) None() bool { return o.ID == "" }

func newOrigin(generation uint64, lost bool) Origin {
	return Origin{ID: rand.Text(), Generation: generation, Lost: lost}
}

// Origins is a store's own record of its origin. Errors match lock.ErrDown or ErrOutcomeUnknown; every method may be
// repeated.
type Origins interface {
	// Origin returns what is recorded; the zero Origin if nothing is.
	Origin(ctx context.Context) (Origin, error)
	// Now returns what the clock of the store's server says.
	Now(ctx context.Context) (time.Time, error)
	// Replace records is where was is recorded, and otherwise changes nothing and returns false. It is one step of the
	// store.
	Replace(ctx context.Context, was, is Origin) (bool, error)
	// Seed puts quantity units of sku in stock, once for each SKU and origin, if o is what is recorded and not lost. A
	// SKU that exists is left alone, and one that was there and is gone is not made again. After an error the SKU may
	// have been seeded or not: Seed is to be called until it returns nil.
	Seed(ctx context.Context, o Origin, sku SKU, quantity int64) error
}

// A Memory is a store that remembers the origins of others, by name.
type Memory interface {
	// Recall returns the last origin remembered of the store; the zero Origin if there is none.
	Recall(ctx context.Context, store string) (Origin, error)
	// Remember keeps o unless one of that generation, or a later one, is remembered.
	Remember(ctx context.Context, store string, o Origin) error
}
