package order

import (
	"context"
	"time"

	"example.com/stock/service"
)

// A Ledger keeps stock, orders and reservations, and changes them by steps.
//
// Once a Ledger has changed a SKU, [Guard] guards it for good. Strategies of the demonstration may not sell it, because
// they write orders of another form, and service.Inventory may not set it, because a new epoch would lose the ledger. A
// Ledger may not change a SKU that a strategy guards. A SKU without a guard is adopted by the first step that moves its
// stock: the Ledger first writes a movement that sets what is there.
//
// Errors match service.ErrUnknownSKU, service.GuardError, service.ErrStaleFence, lock.ErrDown (nothing was written),
// service.ErrOutcomeUnknown (all of it was written, or nothing; repeat the step with the same key), or are those of
// decide.
type Ledger interface {
	// Step reads what about names, calls decide, and writes the changes that decide returns, isolated from other steps.
	// If decide returns an error, nothing is written, and Step returns that error. decide must be a pure function:
	// after a conflict it is called again with another state.
	//
	// If about.Key is known with the same fingerprint, Step writes nothing and returns the reply that was kept, and
	// replayed. With another fingerprint it fails with ErrKeyReused.
	Step(ctx context.Context, about About, decide func(State) (Changes, error)) (reply []byte, replayed bool, err error)
}

// A Batcher is a Ledger that can make many steps as one.
type Batcher interface {
	Ledger
	// Batch does what Step does with each of the steps, one after the other, in one step of the store. Each step sees
	// the changes of those before it, and has its own reply or error. A step that fails does not keep others from being
	// written. The results are in the order of the steps.
	//
	// About.SKUs must contain the SKUs of the order and of the reservation, and About.Create is ignored. A step that
	// needs other SKUs is made by itself.
	//
	// If the step of the store fails, all steps fail. With service.ErrOutcomeUnknown all of them were written, or none.
	// If only one step can be the reason, such as a key that was taken meanwhile, Batch makes the steps one by one, in
	// the same order.
	Batch(ctx context.Context, steps []Request) []StepResult
}

// mergeLines is the most lines that the carts of a batch have together, unless the first cart has more. It bounds the
// rows that are locked, and the bytes of a packet.
const mergeLines = 512

// A Request has the arguments of Step.
type Request struct {
	About  About
	Decide func(State) (Changes, error)
}

// A StepResult is what Step returns.
type StepResult struct {
	Reply    []byte
	Replayed bool
	Err      error
}

// Guard is the guard of a SKU that is sold by a Ledger. See service.Stock.
const Guard = "orders"

// About names what a step may read and change.
type About struct {
	SKUs        []service.SKU          // sorted, each once; those of the order or reservation below are added
	Create      bool                   // create SKUs that do not exist, with nothing in stock
	Customer    string                 // the customer whose limit counts; "": none
	Order       string                 // to be changed; "": none
	Reservation string                 // to be changed; "": none
	Key         Key                    // zero: none
	Fences      map[service.SKU]uint64 // that the write carries for each SKU; nil: no lock is held
}

// A Key makes a step idempotent. Its caller is a part of its ID.
type Key = service.Key

// A State is what a step has read. Times are by the clock of the store's server.
type State struct {
	Now         time.Time
	Stock       map[service.SKU]Level // one for each SKU; a step about a SKU that does not exist fails before decide
	Order       *Order                // nil if about names none, or it does not exist
	Reservation *Reservation
}

// A Level has the counters of one SKU, and the units that the customer of a step has.
type Level struct {
	Received, Available, Reserved, Sold int64
	Number                              uint64 // of the last movement; 0: none yet
	PerCustomer                         int64  // the most that one customer may have; 0: no limit
	Taken                               int64  // units that the customer has, reserved and sold; unknown if no limit
}

// Changes are what a step writes. The zero value writes nothing.
type Changes struct {
	// Movements are in the order of their numbers, which continue Level.Number. A movement with a customer changes the
	// customer's Taken by the sum of its Reserved and Sold.
	Movements   []Movement
	Order       *Order       // written as it is, new or changed
	Reservation *Reservation // written as it is, new or changed
	// Reply is kept with the key, and returned when the key is used again. It is not kept for a refusal.
	Reply []byte
	value any // what Reply is the JSON of
}

// Records reads orders and reservations of a Ledger. It locks nothing.
type Records interface {
	// Order returns the order with that id, or ErrNotFound.
	Order(ctx context.Context, id string) (Order, error)
	// Orders returns up to limit orders of a customer, the newest first, from cursor on ("" is the first page), and the
	// cursor of the next page, or "".
	Orders(ctx context.Context, customer, cursor string, limit int) (page []Order, next string, err error)
	// Reservation returns the reservation with that id, or ErrNotFound.
	Reservation(ctx context.Context, id string) (Reservation, error)
}

// A Book reads the counters and the movements of a SKU.
type Book interface {
	// Level returns the counters of the SKU. Taken is 0.
	Level(ctx context.Context, sku service.SKU) (Level, error)
	// Movements returns up to limit movements of the SKU with a number greater than after, in order.
	Movements(ctx context.Context, sku service.SKU, after uint64, limit int) ([]Movement, error)
	// SetPolicy sets the most units that one customer may have, reserved and sold; 0: no limit. A customer who has more
	// keeps them.
	SetPolicy(ctx context.Context, sku service.SKU, perCustomer int64) error
}

// A Sweeper finds reservations that have expired, and removes old keys.
type Sweeper interface {
	// Due returns up to limit held reservations that have expired, the oldest first. If one does not exist any more,
	// only its ID is set. Several instances may find the same reservations; the step that ends one decides.
	Due(ctx context.Context, limit int) ([]Reservation, error)
	// Forget removes up to limit keys that are older than age by the clock of the store's server, and returns their
	// number.
	Forget(ctx context.Context, age time.Duration, limit int) (int, error)
}
