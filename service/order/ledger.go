package order

import (
	"context"
	"time"

	"example.com/stock/service"
)

// A Ledger keeps stock, orders and reservations, and changes them by steps.
//
// A SKU that a Ledger has changed is guarded by [Guard] for good: the strategies of the demonstration, which write
// orders of another form, may not sell it, and service.Inventory may not set it (that would begin a new epoch, and lose
// the ledger). Nor may a Ledger touch a SKU that a strategy guards. A SKU that nobody guards is adopted by the first
// step that moves its stock: its first movement is then a set of what is there, which the Ledger itself writes.
//
// Errors match service.ErrUnknownSKU, service.GuardError, service.ErrStaleFence, lock.ErrDown (nothing was written),
// service.ErrOutcomeUnknown (all of it was written, or nothing: the same step with the same key tells), or are
// decide's.
type Ledger interface {
	// Step reads what about names, calls decide, and writes the changes that it returns, as if nobody else were there.
	// If decide returns an error, nothing is written, and Step returns that error. Decide is a pure function: it may be
	// called again with another state, when others were faster.
	//
	// If about.Key is known, with the same fingerprint, nothing is written, whatever decide says: Step returns the
	// reply that was kept, and replayed. With another fingerprint it fails with ErrKeyReused.
	Step(ctx context.Context, about About, decide func(State) (Changes, error)) (reply []byte, replayed bool, err error)
}

// A Batcher is a Ledger that can make many steps as one.
type Batcher interface {
	Ledger
	// Batch does with each of the steps what Step would do with it, one after the other, in one step of the store: each
	// sees what those before it have changed, and has its own reply and its own refusal, which keeps no other from
	// being written. The outcomes are in the order of the steps.
	//
	// About.SKUs must name the SKUs of the order and of the reservation, too, and About.Create does not count: a step
	// that turns out to be about more is made by itself.
	//
	// What befalls the step of the store befalls all of them, each by its own error. With service.ErrOutcomeUnknown all
	// of them were written, or none was. What only one of them can have caused, such as a key that was taken meanwhile,
	// makes Batch make the steps singly, in the same order.
	Batch(ctx context.Context, steps []Request) []StepResult
}

// mergeLines is the most lines that the carts of a batch have together, unless its first one alone has more. It bounds
// the rows that are locked, and the bytes of a packet.
const mergeLines = 512

// A Request is what Step is asked for.
type Request struct {
	About  About
	Decide func(State) (Changes, error)
}

// An StepResult is what Step returns.
type StepResult struct {
	Reply    []byte
	Replayed bool
	Err      error
}

// Guard is the guard of a SKU that is sold by a Ledger. See service.Stock.
const Guard = "orders"

// About names what a step may read and change.
type About struct {
	SKUs        []service.SKU          // sorted, each once; those of the reservation or the order below are added
	Create      bool                   // SKUs that do not exist, with nothing in stock
	Customer    string                 // whose units count against a limit; "": nobody's
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

// A Level is the stock of one SKU, and what is known of the customer there.
type Level struct {
	Received, Available, Reserved, Sold int64
	Number                              uint64 // of the last movement; 0: none yet
	PerCustomer                         int64  // the most that one customer may have; 0: no limit
	Taken                               int64  // what the customer has, reserved and sold; not known without a limit
}

// Changes are what a step writes. The zero value writes nothing.
type Changes struct {
	// Movements are in the order of their numbers, which follow Level.Number. Those of a customer change what the
	// customer has taken by the sum of Reserved and Sold.
	Movements   []Movement
	Order       *Order       // written as it is, new or changed
	Reservation *Reservation // written as it is, new or changed
	// Reply is kept with the key, to be returned for the same key again. It is kept with the changes alone: a refusal
	// changes nothing, and the same key may ask again.
	Reply []byte
	value any // what Reply is the JSON of
}

// Records are what a Ledger knows of orders and reservations. They lock nothing.
type Records interface {
	// Order returns the order with that id, or ErrNotFound.
	Order(ctx context.Context, id string) (Order, error)
	// Orders returns up to limit orders of a customer, the newest first, from cursor on ("" is the first page), and the
	// cursor of the next page, or "".
	Orders(ctx context.Context, customer, cursor string, limit int) (page []Order, next string, err error)
	// Reservation returns the reservation with that id, or ErrNotFound.
	Reservation(ctx context.Context, id string) (Reservation, error)
}

// A Book is the ledger of one SKU, to be read.
type Book interface {
	// Level returns the stock as the counters have it. Taken is 0.
	Level(ctx context.Context, sku service.SKU) (Level, error)
	// Movements returns up to limit movements of the SKU with a number greater than after, in order.
	Movements(ctx context.Context, sku service.SKU, after uint64, limit int) ([]Movement, error)
	// SetPolicy sets the most units that one customer may have, reserved and sold; 0: no limit. It takes nothing away
	// from a customer who has more.
	SetPolicy(ctx context.Context, sku service.SKU, perCustomer int64) error
}

// A Sweeper finds what is over.
type Sweeper interface {
	// Due returns up to limit reservations which are held although their time is over, those that are longest over
	// first. Of one that is not there any more it returns the ID alone. Several instances may find the same ones: the
	// step that ends a reservation decides.
	Due(ctx context.Context, limit int) ([]Reservation, error)
	// Forget removes up to limit keys that are older than age, and returns how many there were. Their age, too, is by
	// the clock of the store's server.
	Forget(ctx context.Context, age time.Duration, limit int) (int, error)
}
