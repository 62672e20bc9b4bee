package order

import (
	"context"
	"time"

	"example.com/stock/service"
)

// A Ledger keeps stock, orders and reservations, and changes them by steps.
//
// Once a Ledger has changed a SKU, [Guard] guards the SKU for good. Strategies of the demonstration may not sell it,
// because they write another kind of order, and service.Inventory may not set it, because a new epoch would lose the
// ledger. A Ledger may not change a SKU that a strategy guards. The first step that moves the stock of a SKU without a
// guard sets the guard: the Ledger first writes a movement that receives the present stock.
//
// Errors match service.ErrUnknownSKU, service.GuardError, service.ErrStaleFence, lock.ErrDown (nothing was written), or
// service.ErrOutcomeUnknown (all of it was written, or nothing; repeat the step with the same key). Other errors come
// from decide.
type Ledger interface {
	// Step reads the records that about names, calls decide, and writes the changes that decide returns, isolated from
	// other steps. If decide returns an error, Step writes nothing and returns that error. decide must be a pure
	// function: after a conflict it is called again with another state.
	//
	// If about.Key was used with the same fingerprint, Step writes nothing and returns the stored reply, and replayed
	// is true. If it was used with another fingerprint, Step fails with ErrKeyReused.
	Step(ctx context.Context, about About, decide func(State) (Changes, error)) (reply []byte, replayed bool, err error)
}

// A Batcher is a Ledger that can make several steps in one step of the store.
type Batcher interface {
	Ledger
	// Batch makes each of the steps as Step does, one after the other, in one step of the store. Each step sees the
	// changes of those before it, and has its own reply or error. A failed step does not prevent the others. The
	// results are in the order of the steps.
	//
	// About.SKUs must contain the SKUs of the order and of the reservation, and About.Create is ignored. A step that
	// needs further SKUs is made alone.
	//
	// If the step of the store fails, all steps fail. With service.ErrOutcomeUnknown all of them were written, or
	// none. If a single step may have caused the failure, for example because its key was taken meanwhile, Batch
	// makes the steps one by one, in the same order.
	Batch(ctx context.Context, steps []Request) []StepResult
}

// mergeLines is the largest total number of lines in the carts of a batch, unless the first cart alone has more. It
// limits the number of locked rows and the size of a packet.
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

// About names the records that a step may read and change. Empty fields name nothing.
type About struct {
	SKUs        []service.SKU          // sorted, each once; those of the order or reservation below are added
	Create      bool                   // create SKUs that do not exist, with nothing in stock
	Customer    string                 // the customer whose limit counts; "": none
	Holder      string                 // the customer whose State.Holding the step needs; "": none
	Order       string                 // to be changed; "": none
	Reservation string                 // to be changed; "": none
	Key         Key                    // zero: none
	Fences      map[service.SKU]uint64 // fences that the write carries; nil: no lock is held
}

// A Key makes a step idempotent. Its ID depends on the caller.
type Key = service.Key

// A State is what a step has read. Times are those of the store's server.
type State struct {
	Now         time.Time
	Stock       map[service.SKU]Level // one for each SKU; a step about a SKU that does not exist fails before decide
	Order       *Order                // nil if about names none, or it does not exist
	Reservation *Reservation
	// Holding is what the Holder has, over all SKUs. No other step changes it until this step is written, also no step
	// about other SKUs. It is zero without a Holder.
	Holding Holding
}

// A Level has the counters of one SKU, and the units that the customer of a step has.
type Level struct {
	Received, Available, Reserved, Sold int64
	Number                              uint64 // number of the last movement; 0: none yet
	PerCustomer                         int64  // the most that one customer may have; 0: no limit
	Taken                               int64  // units that the customer has, reserved and sold; unknown if no limit
}

// Changes are what a step writes. The zero value writes nothing.
type Changes struct {
	// Movements are in the order of their numbers, which continue Level.Number. A movement with a customer adds its
	// Reserved and Sold to the customer's Taken.
	Movements   []Movement
	Order       *Order       // written as it is, new or changed
	Reservation *Reservation // written as it is, new or changed
	// Reply is stored with the key, and returned when the key is used again. A refusal stores no reply.
	Reply []byte
	value any // the value that Reply encodes in JSON
}

// Records reads orders and reservations of a Ledger, without locks.
type Records interface {
	// Order returns the order with that id, or ErrNotFound.
	Order(ctx context.Context, id string) (Order, error)
	// Orders returns up to limit orders of a customer, the newest first, beginning at cursor ("": at the newest), and
	// the cursor of the next page ("" after the last).
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
	// Due returns up to limit held reservations that have expired, the oldest first, without the first skip. If one
	// does not exist any more, or cannot be read, only its ID is set. Several instances may find the same reservation;
	// the first step that ends it wins.
	Due(ctx context.Context, skip, limit int) ([]Reservation, error)
	// Forget removes up to limit keys that are older than age by the clock of the store's server, and returns how
	// many it removed.
	Forget(ctx context.Context, age time.Duration, limit int) (int, error)
}
