package service

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// An Order is the evidence of units sold. It is written in one step with the deduction, or not at all.
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
	Segment   int    // that Read, Remaining and Version are of; 0: of the whole stock
	CreatedAt time.Time
	Key       Key // that no other order may have; zero: none. It is written with the order, and not read with it
}

// A Store keeps stock and orders. All its methods are bounded by ctx.
//
// An order whose Key has been written before is refused with ErrKeyTaken. See [Replayer].
//
// Errors match ErrUnknownSKU, lock.ErrDown (nothing was written), ErrOutcomeUnknown (it may have been).
type Store interface {
	// Read returns what is in stock now. It locks nothing.
	Read(ctx context.Context, sku SKU) (Stock, error)

	// Write sets the quantity to o.Remaining *whatever it is now*, adds one to the version and records o, in one
	// step. That is the write of read, think, write, and without a lock it loses updates. It writes nothing and
	// fails with ErrStaleFence if o.Fence is not 0 and smaller than the stock's, with a GuardError if another
	// strategy has written in this epoch, with ErrStockReset if o.Epoch is over.
	Write(ctx context.Context, o Order) error
}

// A Swapper is a store that writes only what nobody has changed: compare and swap.
type Swapper interface {
	// Swap is Write, but if the version is not o.Version any more it writes nothing and fails with ErrConflict.
	Swap(ctx context.Context, o Order) error
}

// A Deductor is a store that can deduct in one atomic step: what to use when you can.
type Deductor interface {
	// Deduct fills in what was read and written, and records the order. It fails with a SoldOutError if too few are
	// left, and as Write does.
	Deduct(ctx context.Context, o Order) (Order, error)
}

// A Batcher is a store that can make many deductions of one SKU in one step.
type Batcher interface {
	// Batch does with each of the orders what Deduct would do with it, one after the other, in one step: each has its
	// own Read, Remaining and Version, and its own refusal. The results are in the order of the orders, which must have
	// the same SKU. An order for more than is left is refused with what is left, and those behind it may still fit.
	//
	// If version is not 0, orders are refused with ErrConflict unless the stock has that version before the first one.
	//
	// An error is about all orders, none of which was written, or with ErrOutcomeUnknown, may have been.
	Batch(ctx context.Context, version uint64, orders []Order) ([]Result, error)
}

// A Result is what became of an order: the order as it was written, or the error of [Deductor].
type Result struct {
	Order Order
	Err   error
}

// A Transactor is a store with transactions.
type Transactor interface {
	// Transact runs do in one transaction and commits if it returns nil. In it, Read locks the stock row until the end
	// (SELECT ... FOR UPDATE), waiting for its holder, or with tryOnce failing with lock.ErrHeld at once.
	// about is the SKU that do reads first: transactions about the same one may have to take turns.
	Transact(ctx context.Context, about SKU, tryOnce bool, do func(ctx context.Context, tx Store) error) error
}

// Capability returns store as T, such as a [Deductor], or an error if it is none.
func Capability[T any](store Store) (T, error) {
	capable, ok := store.(T)
	if !ok {
		return capable, fmt.Errorf("a %T is no %v: %w", store, reflect.TypeFor[T](), errors.ErrUnsupported)
	}
	return capable, nil
}

// Fits returns an error if store is no T. It is for StrategyConfig.Fits.
func Fits[T any](store Store) error {
	_, err := Capability[T](store)
	return err
}

// A Settler is a store that can make it final that an order does not exist.
type Settler interface {
	// Settle returns the order of sku with that id, or false: none was written, and none can be from now on, also by a
	// request that is on its way. A write with the id fails with ErrSettled then. To ask again is safe, and gives the
	// same answer.
	//
	// Errors: ErrUnknownSKU; InvalidError if the id is none that the service makes; ErrUndecided if a write of the
	// order is under way, or too many are settled; ErrTooOld if it was made so long ago that it may have been removed;
	// lock.ErrDown. After any of them nothing is known.
	Settle(ctx context.Context, sku SKU, id string) (o Order, written bool, err error)
}

// An Inventory is where stock is set and orders are looked up: everything but selling.
type Inventory interface {
	// Set puts quantity units of sku in stock and starts a new epoch. It creates the SKU if need be.
	Set(ctx context.Context, sku SKU, quantity int64) (Stock, error)
	// SetIf is Set if c holds, and otherwise sets nothing and fails with ErrPrecondition. It is one step of the store.
	SetIf(ctx context.Context, sku SKU, quantity int64, c Condition) (Stock, error)
	// Orders returns up to limit orders of the current epoch in the order in which they were written, from cursor
	// on ("" is the first page), and the cursor of the next page, or "".
	Orders(ctx context.Context, sku SKU, cursor string, limit int) (page []Order, next string, err error)
}
