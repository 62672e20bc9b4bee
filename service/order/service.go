package order

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// A Store is the store that a Service needs.
type Store interface {
	Batcher
	Records
	Book
	Sweeper
}

// Config has the settings of a Service.
type Config struct {
	Store Store
	Needs service.Dependency // the store's server
	Data  service.Data       // reports whether the store has its data; nil: no check

	// Lock is acquired for every SKU of a step, see lock.All; nil: no lock. A step is correct without locks. They are
	// for comparisons, and to reduce conflicts in the store for hot SKUs.
	Lock      lock.Locker
	LockNeeds []service.Dependency
	Wait      time.Duration // how long a request waits for the locks; 0: it tries once

	Ledger Ledger // makes the steps instead of Store; nil: Store. See Config.Merged.
	merged bool   // Ledger makes batches, which are bounded

	Limits Limits // of reservations

	Work time.Duration // longest time under the locks, and for a call of the store
	// Waiting is the largest number of requests that wait or work at a time; 0: no limit. More are refused with
	// lock.ErrOverloaded.
	Waiting int
	KeepKey time.Duration // how long the sweeper keeps idempotency keys; see service.KeepKeys
	// Ended is called after each step of a request, except for a repeated one. err is what the caller gets; nil: the
	// step was written. Ended may be nil.
	Ended func(customer string, skus []service.SKU, err error)
	// Swept is called after each search for expired reservations. overdue are those that could not be ended. Swept may
	// be nil.
	Swept func(overdue int)
	Owner string // the holder's name that lock.Inspect shows
	Log   *slog.Logger
}

// A Service sells and reserves carts, and keeps the ledger. It is safe for concurrent use.
//
// A method that changes something takes the client's idempotency key, or "". If the same caller repeats the same
// request with the key, the method returns the first reply, and replayed is true. If the request differs, it returns
// ErrKeyReused. The key is written in one step with the changes, so of two requests with one key only one changes
// something. A refusal changes nothing and is not stored with the key, so the key may be sent again.
//
// Errors are those of the rules, InvalidError, lock.ErrDown, lock.ErrOverloaded, service.ErrUnknownSKU,
// service.GuardError, UnknownError, and those of package lock if there is a Lock.
type Service struct {
	Config
	known    service.KnownSKUs
	underway service.Underway
}

// New makes a Service. The caller must call Sweep, or reservations never expire.
func New(c Config) *Service {
	if c.Ledger == nil {
		c.Ledger = c.Store
	}
	return &Service{Config: c}
}

// Err returns nil if the servers are up and the store has its data.
func (s *Service) Err() error {
	for _, need := range s.needs() {
		if err := need.Err(); err != nil {
			return err
		}
	}
	return nil
}

// needs returns what a step depends on: the servers, then the store's data.
func (s *Service) needs() []service.Dependency {
	needs := append([]service.Dependency{s.Needs}, s.LockNeeds...)
	if s.Data != nil {
		needs = append(needs, s.Data)
	}
	return needs
}

// An UnknownError is the error of a step that was sent to the store but not answered. The step was made as a whole, or
// not at all, or may still be made.
type UnknownError struct {
	ID    string // id of the order or reservation that the step makes or changes; "": none
	Again bool   // the request can be sent again safely: it has a key, or the step is idempotent
	Err   error
}

func (e *UnknownError) Error() string { return fmt.Sprintf("order or reservation %q: %v", e.ID, e.Err) }

func (e *UnknownError) Unwrap() error { return e.Err }

type call struct {
	about     About
	decide    rule
	key       string // that the client has sent; "": none
	caller    string
	operation string // method and path
	asked     any    // the decoded request body
	id        string // id of the order or reservation that the step makes or changes
	ends      bool   // the step is idempotent
}

func step[T any](ctx context.Context, s *Service, c call) (out T, replayed bool, err error) {
	if c.about.Key, err = service.NewKey(c.caller, c.operation, c.key, c.asked); err != nil {
		return out, false, err
	}
	decide, value := c.decide, any(nil)
	c.decide = func(s State) (Changes, error) {
		changes, err := decide(s)
		value = changes.value
		return changes, err
	}
	reply, replayed, err := s.step(ctx, c)
	if s.Ended != nil && !replayed {
		s.Ended(c.about.Customer, c.about.SKUs, err)
	}
	if errors.Is(err, service.ErrOutcomeUnknown) {
		err = &UnknownError{c.id, c.ends || c.key != "", err}
	}
	if err != nil {
		return out, false, err
	}
	if out, ok := value.(T); ok && !replayed {
		return out, false, nil
	}
	if err := json.Unmarshal(reply, &out); err != nil {
		return out, false, fmt.Errorf("decode the reply: %w", err)
	}
	return out, replayed, nil
}

// step makes one step, under the locks if there is a Lock. When ctx ends, a waiting request leaves its queue; a step
// that has begun is finished.
func (s *Service) step(ctx context.Context, c call) (reply []byte, replayed bool, err error) {
	defer s.underway.Leave()
	if err := s.underway.Enter(s.Waiting); err != nil {
		return nil, false, err
	}
	needs := s.needs()
	if s.Data != nil && c.about.Create { // a person may set stock in a store that has lost its data
		needs = needs[:len(needs)-1]
	}
	if err := service.Ready(ctx, s.Data, needs...); err != nil {
		return nil, false, err
	}
	ctx, done := service.While(ctx, needs...)
	defer done()
	run := func(ctx context.Context) error {
		reply, replayed, err = s.Ledger.Step(ctx, c.about, c.decide)
		return err
	}
	if s.Lock == nil {
		wait, cancel := context.WithTimeout(ctx, s.Work)
		defer cancel()
		work := context.WithoutCancel(ctx)
		if !s.merged || c.about.Create || c.about.Order+c.about.Reservation != "" { // else Merged limits the time
			bounded, ended := context.WithTimeout(work, 2*s.Work) // once for the queue and once for the step
			defer ended()
			work = bounded
		}
		err = run(service.WithWait(work, wait))
		return reply, replayed, service.Busy(err, needs...)
	}
	err = s.locked(ctx, &c, run)
	if err != nil && reply != nil && errors.Is(err, lock.ErrLost) {
		err = nil // the lease was lost only after the step was written, so the step is valid
	}
	return reply, replayed, service.Busy(err, needs...)
}

// locked calls run while it holds the locks of all SKUs of c, and puts their fences into the step.
func (s *Service) locked(ctx context.Context, c *call, run func(context.Context) error) error {
	keys, err := s.keys(ctx, c)
	if err != nil {
		return err
	}
	wait, tryOnce, cancel := service.Wait(ctx, s.Wait, s.Work)
	defer cancel()
	o := lock.Options{TryOnce: tryOnce, Owner: s.Owner, Wait: wait}
	return lock.All(context.WithoutCancel(ctx), s.Lock, keys, o,
		func(ctx context.Context, fences map[string]lock.Fence) error {
			ctx, cancel := context.WithTimeout(service.Begin(ctx), s.Work)
			defer cancel()
			c.about.Fences = make(map[service.SKU]uint64, len(fences))
			for key, fence := range fences {
				c.about.Fences[service.SKU(key)] = uint64(fence)
			}
			// If the outcome of a step is unknown, the step can still be written only until another step moves the same
			// stock. So the next holder need not wait for it.
			return lock.Conditional(run(ctx))
		})
}

// keys returns the SKUs of c, with those of its order or reservation, whose lines never change. It fails if a SKU
// does not exist; see service.KnownSKUs. Another customer's order takes no lock: the time of a reply must not tell that
// it exists.
func (s *Service) keys(ctx context.Context, c *call) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Work)
	defer cancel()
	list := c.about.SKUs
	var lines []Line
	var err error
	switch {
	case c.about.Reservation != "":
		var r Reservation
		r, err = s.Store.Reservation(ctx, c.about.Reservation)
		if lines = r.Lines; err == nil && r.Customer != c.about.Customer {
			err = ErrNotFound
		}
	case c.about.Order != "":
		var o Order
		o, err = s.Store.Order(ctx, c.about.Order)
		if lines = o.Lines; err == nil && o.Customer != c.about.Customer {
			err = ErrNotFound
		}
	}
	if err != nil {
		return nil, err
	}
	list = append(list[:len(list):len(list)], skusOf(lines)...)
	keys := make([]string, len(list))
	for i, sku := range list {
		keys[i] = string(sku)
		if c.about.Create {
			continue
		}
		err := s.known.Check(sku, func() error {
			_, err := s.Store.Level(ctx, sku)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// read calls the store without changing stock.
func read[T any](ctx context.Context, s *Service, do func(context.Context) (T, error)) (T, error) {
	return service.Call(ctx, s.Work, s.Needs, s.Data, do)
}

// newID makes the id of an order or a reservation. Ids sort roughly by the time at which they were made.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}

// isID reports whether s has the form of an id from newID. Other ids are refused without a read of the store.
func isID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}
