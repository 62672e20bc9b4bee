package order

import (
	"cmp"
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

// A Store is what a Service needs of storage.
type Store interface {
	Batcher
	Records
	Book
	Sweeper
}

// Config holds what a Service is made of.
type Config struct {
	Store Store
	Needs service.Dependency // the store's server
	Data  service.Data       // knows whether the store has its data; nil: it is not checked

	// Lock is taken for every SKU of a step, see lock.All. nil: none, which is the default, because a step needs none:
	// the locks are here to be compared, and to keep hot SKUs from being fought for in the store.
	Lock      lock.Locker
	LockNeeds []service.Dependency
	Wait      time.Duration // how long a request waits for the locks; 0: it tries once

	Ledger Ledger // makes the steps in place of the Store, of which it is; nil: the Store. See Config.Merged.
	merged bool   // Steps are in batches, which have a bound

	Work time.Duration // longest stay under the locks, and the longest call of the store
	// Waiting is how many requests wait or work at a time; others are refused with lock.ErrOverloaded. 0: any number.
	Waiting int
	KeepKey time.Duration // how long idempotency keys are remembered
	// Gone says why there is no order or reservation with that id, if not because there never was; nil: it cannot be.
	Gone  func(ctx context.Context, id string) error
	Owner string // the name that others are shown of who holds a lock
	Log   *slog.Logger
}

// A Service sells carts, keeps them for customers, and keeps the books. It is safe for concurrent use.
//
// A method that changes something takes the idempotency key that the client has sent, or "". With the same key, the
// same caller and the same request it returns the first reply again, and replayed; with another request ErrKeyReused.
// The key is written with the changes, so no two requests with one key both change something, and none is ever "in
// flight". What was refused changed nothing and is not remembered: the same key may ask again.
//
// Errors are those of the rules, InvalidError, lock.ErrDown, lock.ErrOverloaded, service.ErrUnknownSKU,
// service.GuardError, those of package lock if there is a Lock, and an UnknownError.
type Service struct {
	Config
	known    service.KnownSKUs
	underway service.Underway
}

// New makes a Service. Call Sweep, or reservations never expire.
func New(c Config) *Service {
	if c.Ledger == nil {
		c.Ledger = c.Store
	}
	return &Service{Config: c}
}

// Err returns nil if orders can be sold now: the servers are up, and the store has its data.
func (s *Service) Err() error {
	for _, need := range s.needs() {
		if err := need.Err(); err != nil {
			return err
		}
	}
	return nil
}

// needs are what a step depends on.
func (s *Service) needs() []service.Dependency {
	needs := append([]service.Dependency{s.Needs}, s.LockNeeds...)
	if s.Data != nil {
		needs = append(needs, s.Data)
	}
	return needs
}

// An UnknownError is a step that was sent and not answered: it was done as a whole, or not at all, and may still be.
type UnknownError struct {
	ID    string // of the order or reservation that it would make or change; "": none
	Again bool   // the same request can be sent again: it has a key, or ends what has one end
	Err   error
}

func (e *UnknownError) Error() string { return fmt.Sprintf("order or reservation %q: %v", e.ID, e.Err) }

// Unwrap is the cause. It matches service.ErrOutcomeUnknown.
func (e *UnknownError) Unwrap() error { return e.Err }

// A call is one request for a step.
type call struct {
	about     About
	decide    rule
	key       string // that the client has sent; "": none
	caller    string
	operation string // method and path
	asked     any    // what is asked for, beyond the operation
	id        string // of what is made or changed
	ends      bool   // to do it twice is to do it once
}

// step makes the call and decodes the reply.
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
	if err = s.missing(ctx, c.id, err); errors.Is(err, service.ErrOutcomeUnknown) {
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

// step makes one step, under the locks if there are any. When ctx ends the request leaves the queues; a step that has
// begun is finished.
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
		if !s.merged || c.about.Create || c.about.Order+c.about.Reservation != "" { // or its batch has a bound
			bounded, ended := context.WithTimeout(work, 2*s.Work) // the queue, and the step
			defer ended()
			work = bounded
		}
		err = run(service.WithWait(work, wait))
		return reply, replayed, service.Busy(err, needs...)
	}
	err = s.locked(ctx, &c, run)
	if err != nil && reply != nil && errors.Is(err, lock.ErrLost) {
		err = nil // a lease was lost after the step was written: it stands
	}
	return reply, replayed, service.Busy(err, needs...)
}

// locked calls run with the locks of all SKUs of c. Its fences go with the step.
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
			// A step that was sent and not answered changes nothing any more once somebody else has moved the same
			// stock: the next holder need not wait for it.
			return lock.Conditional(run(ctx))
		})
}

// keys returns the SKUs that c is about, which for an order or a reservation are its lines: they never change. A SKU
// that does not exist is refused here: the servers of locks keep something for every key that was ever locked.
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
		lines = r.Lines
	case c.about.Order != "":
		var o Order
		o, err = s.Store.Order(ctx, c.about.Order)
		lines = o.Lines
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

// read makes a call of the store that changes no stock.
func read[T any](ctx context.Context, s *Service, do func(context.Context) (T, error)) (T, error) {
	return service.Call(ctx, s.Work, s.Needs, s.Data, do)
}

// missing returns the better error for an id that was not found.
func (s *Service) missing(ctx context.Context, id string, err error) error {
	if s.Gone != nil && errors.Is(err, ErrNotFound) {
		return cmp.Or(s.Gone(ctx, id), err)
	}
	return err
}

// newID makes the id of an order or a reservation: ids sort by the time at which they were made, roughly.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}

// isID reports whether s can be an id of ours. The store is not asked for others.
func isID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}
