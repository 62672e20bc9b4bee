package service

import (
	"context"
	"time"
)

// An Order records units sold. It is written in one step with the deduction, or not at all.
type Order struct {
	ID        string
	SKU       SKU
	Quantity  int64
	Read      int64  // quantity that the sale read
	Remaining int64  // quantity that the sale wrote
	Version   uint64 // version that the sale read
	Epoch     uint64 // epoch that the sale read
	Strategy  string
	Instance  string
	RequestID string
	Fence     uint64 // fence that the write carried; 0: none
	Segment   int    // the segment that Read, Remaining and Version belong to; 0: the whole stock
	CreatedAt time.Time
	Key       Key // no other order may have it; zero: none. It is written with the order, but not read with it
}

// A Store is what a sale reads and writes. ctx limits the time of each method.
//
// Errors match ErrUnknownSKU, lock.ErrDown (nothing was written), ErrOutcomeUnknown (it may have been).
type Store interface {
	// Read returns the stock, without a lock.
	Read(ctx context.Context, sku SKU) (Stock, error)

	// Write sets the quantity to o.Remaining *whatever it is now*, adds one to the version and records o, in one
	// step. Without a lock, read, think and Write lose updates. Write fails, and writes nothing, with ErrStaleFence
	// if o.Fence is not 0 and smaller than the stock's, with a GuardError if another strategy guards the stock, with
	// ErrStockReset if the stock was set since epoch o.Epoch, and with ErrKeyTaken if an order was written with o.Key.
	Write(ctx context.Context, o Order) error
}

// A Shop is a store with all that the service and its sellers need. A [Transactor] can do more.
//
// It writes the Key of an order in the same step as the order. So two requests with one key make one order, whatever
// locks they hold.
//
// It does not check quantities and limits: package service has checked what a request asks for, and a seller computes
// the rest.
//
// It can keep the stock of a SKU in segments. An Order with a Segment is about that segment: for Write and Swap, its
// Read, Remaining, Version and Fence are those of the segment. Read, Set and Orders show the whole stock.
type Shop interface {
	Store

	// Swap is like Write, but if the version is no longer o.Version, or the quantity no longer o.Read, it writes
	// nothing and fails with ErrConflict. The quantity is compared because a replica that has missed writes may count
	// the same versions for other sales.
	Swap(ctx context.Context, o Order) error
	// Deduct deducts, records the order, and returns it with the quantities read and written, in one step. It fails
	// with a SoldOutError if too few units are left, and otherwise like Write. Prefer it where you can.
	Deduct(ctx context.Context, o Order) (Order, error)
	// Batch deducts each of the orders as Deduct does, one after the other, in one step. There is at least one, and all
	// are of the whole stock of one SKU. Each order has its own Read, Remaining and Version, or its own error; the
	// results are in the order of the orders. If one order asks for more than is left, later ones may still be written.
	//
	// An error concerns all orders: none was written, or with ErrOutcomeUnknown, all may have been.
	Batch(ctx context.Context, orders []Order) ([]BatchResult, error)

	// Segments returns the stock in parts, without a lock.
	Segments(ctx context.Context, sku SKU) (Segments, error)
	// Refill makes all moves of g in one step, or none. It fails with ErrConflict if a segment's version or quantity
	// has changed since it was read, or if the reserve has too few units, and otherwise like Write. From then on the
	// strategy guards the stock.
	//
	// If the outcome is not known, it fails with lock.ErrDown, because the caller reads the segments again in any
	// case.
	Refill(ctx context.Context, g Refill) error
	// Raise makes fence the smallest fence that a write to the segment of sku may carry, unless the store already has a
	// larger one. It does so in one step. Segment 0 stands for the whole stock. If no strategy guards the stock,
	// strategy guards it from then on, because fences of different strategies cannot be compared. If the segment does
	// not exist, Raise creates it without units. It fails with a GuardError if another strategy guards the stock.
	Raise(ctx context.Context, sku SKU, segment int, strategy string, fence uint64) error

	// Set puts quantity units of sku in stock and starts a new epoch. It creates the SKU if it does not exist, puts all
	// units into the reserve, and removes the segments. If c does not hold, it sets nothing and fails with
	// ErrPrecondition. Check and write are one step.
	Set(ctx context.Context, sku SKU, quantity int64, c Condition) (Stock, error)
	// Orders returns up to limit orders of the current epoch in the order in which they were written, from cursor on
	// ("": from the first), and the cursor of the next page ("" after the last).
	Orders(ctx context.Context, sku SKU, cursor string, limit int) (page []Order, next string, err error)
	// Replay returns the order of sku that was written with the key; found is false if there is none. If the
	// fingerprint differs, it fails with ErrKeyReused. A store that keeps the keys of each SKU apart may not notice
	// that the key was used for another SKU.
	Replay(ctx context.Context, sku SKU, key Key) (o Order, found bool, err error)
	// Settle returns the order of sku with that id, or written is false. Then the order was not written and never
	// will be, not even by a request that is on its way: a write with the id fails with ErrSettled. Settle is
	// idempotent.
	//
	// Errors: ErrUnknownSKU; InvalidError if the service makes no such id; ErrUndecided if a write of the order is
	// under way, or too many are settled; ErrTooOld if the order is so old that it may have been removed;
	// lock.ErrDown. After an error nothing is decided.
	Settle(ctx context.Context, sku SKU, id string) (o Order, written bool, err error)
}

// A BatchResult is the order as it was written, or the error that Deduct would return.
type BatchResult struct {
	Order Order
	Err   error
}

// A Transactor is a store with transactions.
type Transactor interface {
	// Transact calls do in a transaction, and commits if do returns nil. Read locks the stock row until the end of
	// the transaction (SELECT ... FOR UPDATE). If another transaction holds the row, Read waits, or with tryOnce
	// fails with lock.ErrHeld at once. about is the SKU that do reads first, because transactions for the same SKU
	// may have to take turns.
	Transact(ctx context.Context, about SKU, tryOnce bool, do func(ctx context.Context, tx Store) error) error
}

// An Origin identifies the data of a store. It is recorded in the store itself, before the first stock, and is lost
// with the data. See docs/adr/0007-a-store-that-lost-its-data.md.
type Origin struct {
	ID string // random; empty: this service has put no data into the store
	// Generation orders the origins of one store. The first is 1. When a person sets the stock of a store that has
	// lost its data, the next one is the time of the store's server in seconds, or the last one plus 1 if that is
	// larger. The clock of an instance is not used, because the clock of another instance may be ahead.
	Generation uint64
	Lost       bool // the data were lost: nothing is sold until a person sets the stock
}

// follows reports whether a store with the origin known may have the origin o later: the data are the same, or a person
// has set stock in between.
func (o Origin) follows(known Origin) bool {
	return o.ID != "" && (known.ID == "" || o.ID == known.ID || o.Generation > known.Generation)
}

// Origins is a store's record of its own origin. Errors match lock.ErrDown or ErrOutcomeUnknown. Every method is
// idempotent.
type Origins interface {
	// Origin returns the recorded origin, or the zero Origin if there is none.
	Origin(ctx context.Context) (Origin, error)
	// Now returns the time of the store's server.
	Now(ctx context.Context) (time.Time, error)
	// Replace replaces the recorded origin by is, if it equals was, in one step. Otherwise it changes nothing.
	Replace(ctx context.Context, was, is Origin) error
	// Seed puts quantity units of sku in stock, once for each SKU and origin, if o is recorded and not lost. It does
	// nothing if the SKU exists or has existed. After an error the outcome is unknown: call Seed again until it
	// returns nil.
	Seed(ctx context.Context, o Origin, sku SKU, quantity int64) error
}

// Data tells whether a store still has its data.
type Data interface {
	// Err is a DataLostError if the store has lost its data, and a driver.DownError before the first Check.
	Dependency
	// Check is part of every health probe. It asks the store, and returns only errors of its server. Err has the
	// result.
	Check(ctx context.Context) error
	// Look returns Err. After a loss it first asks the store again, because a person may have set the stock through
	// another instance.
	Look(ctx context.Context) error
	// Renew records that a person has set the stock, which ends a loss.
	Renew(ctx context.Context) error
}

// Trusted is the Data of a store whose server is trusted to keep them.
type Trusted struct{}

func (Trusted) Err() error                  { return nil }
func (Trusted) Up() context.Context         { return context.Background() }
func (Trusted) Check(context.Context) error { return nil }
func (Trusted) Look(context.Context) error  { return nil }
func (Trusted) Renew(context.Context) error { return nil }
