package loadtest

import "context"

// A Target is what Run puts load on: an instance of our own service (Client), or somebody else's (see package mapping). It is safe for concurrent use.
type Target interface {
	// URL is the address, for reports.
	URL() string
	// Strategies are the ways to deduct that it has.
	Strategies(ctx context.Context) ([]Strategy, error)
	// Deduct asks for one deduction, once, until ctx ends. It has no error: every end of it is an Outcome.
	Deduct(ctx context.Context, r Request) Reply
	Shelf
}

// A Shelf is where the stock lies: the evidence that does not come from replies. Errors are TargetErrors.
type Shelf interface {
	SetStock(ctx context.Context, store, sku string, quantity int64) (Stock, error)
	Stock(ctx context.Context, store, sku string) (Stock, error)
	// Orders are all orders since the stock was set. A target whose Stock is Unlisted returns none.
	Orders(ctx context.Context, store, sku string) ([]Order, error)
}

// An assumer is a target that does not tell what there was at first. Assume returns how many units look says.
type assumer interface {
	Assume(look Look) (initial int64, err error)
}

// A warmer opens n connections before the start.
type warmer interface {
	Warm(ctx context.Context, n int)
}
