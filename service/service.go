package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/stock/lock"
)

// A StrategyConfig is a Seller that requests can name.
type StrategyConfig struct {
	Seller    Seller
	Fits      func(Store) error // what the Seller needs of a store, see [Fits]; nil: it takes every store
	Blocking  bool              // waits by default; otherwise it tries once unless asked to wait
	Stores    []string          // the stores that it works on, the default first; empty: all
	Needs     []Dependency
	Lock      lock.Locker // of the Way, to inspect and to evict from; nil: there is none
	Segmented bool        // the Lock has a key for each segment of a SKU, such as "sku#3"
	Weak      bool        // its guard of a stock ends after GuardIdle without a write
}

// A StoreConfig is a store that requests can name.
type StoreConfig struct {
	Store interface {
		Store
		Inventory
	}
	Needs Dependency
	Data  *DataCheck // nil: it is not checked whether the store has its data
}

// data returns what knows of the store's data, or nil.
func (s StoreConfig) data() Data {
	if s.Data == nil {
		return nil
	}
	return s.Data
}

// Config holds what a Service is made of.
type Config struct {
	Instance     string                    // who we are, in orders and replies
	Strategies   map[string]StrategyConfig // by strategy
	Stores       map[string]StoreConfig    // by store
	DefaultStore string                    // the store of requests that name none
	Wait         time.Duration             // how long a Blocking strategy waits if the request does not say
	// Work is the longest stay in the critical section, and the longest store call elsewhere. A way without a lock has
	// as long again for the store's queue.
	Work   time.Duration
	Pauses *Pauses // lab mode: where sales wait that are told to; nil: none does
	Watch  Watcher // lab mode: is told the steps of each sale, and each sale can be stopped under way; nil: nobody is
	// Waiting is how many sales wait or work at a time; others are refused with lock.ErrOverloaded. 0: any number.
	Waiting   int
	GuardIdle time.Duration // see GuardIdle
}

// A Service sells. It is safe for concurrent use.
type Service struct {
	Config
	known    map[string]*KnownSKUs // by store
	idle     idle
	soldOut  *soldOut
	underway Underway
	keys     underKeys
}

// New makes a Service. It fails if a strategy does not fit a store that it is to sell from.
func New(c Config) (*Service, error) {
	for name, strategy := range c.Strategies {
		for store, config := range c.Stores {
			if strategy.Fits == nil || config.Store == nil ||
				len(strategy.Stores) > 0 && !slices.Contains(strategy.Stores, store) {
				continue
			}
			if err := strategy.Fits(config.Store); err != nil {
				return nil, fmt.Errorf("strategy %s on store %s: %w", name, store, err)
			}
		}
	}
	s := &Service{Config: c, known: make(map[string]*KnownSKUs), soldOut: newSoldOut(c.Work)}
	for store := range c.Stores {
		s.known[store] = &KnownSKUs{}
	}
	return s, nil
}

// A Request asks for a deduction. SKU and quantity are checked; the rest is looked up.
type Request struct {
	Strategy  string
	Store     string // empty: the default
	SKU       SKU
	Quantity  int64
	Wait      *time.Duration // for the lock; nil: the strategy's default; 0: try once
	RequestID string
	Key       Key // zero: none
	Lab       Lab
}

// A Receipt says what a deduction saw and did.
type Receipt struct {
	Order
	Store                  string
	HolderFence            lock.Fence // Order.Fence is what the write carried: less in the lab
	Waited, Held           time.Duration
	AcquiredAt, ReleasedAt time.Time
	// ReadAt is when the value that the sale went by was in hand, and WrittenAt when the write was known to be done:
	// the store read before the one and wrote before the other, by the time of a reply. A way that reads and writes in
	// one step has one time for both. In a transaction both are before the commit.
	ReadAt, WrittenAt time.Time
	// how often it read: more than once where others were quicker, or units had to be fetched
	Tries     int
	Wakeups   int      // how often the lock's server woke it while it waited; see lock.Options.OnWake
	LeaseLost bool     // the lease was lost after the order was written: the order stands
	Batch     *InBatch // the batch that it was sold in; nil: its seller does not merge
	// Replayed: it is of an earlier request with the same Key. The times are not kept: they are CreatedAt.
	Replayed bool
}

// An OrderError is a failed deduction with the id that its order would have, and where: with ErrOutcomeUnknown,
// [Service.Settle] it.
type OrderError struct {
	OrderID string
	Err     error
	SKU     SKU
	Store   string
}

func (e *OrderError) Error() string { return fmt.Sprintf("order %s: %v", e.OrderID, e.Err) }

// Unwrap is the cause.
func (e *OrderError) Unwrap() error { return e.Err }

// Deduct sells req.Quantity units of req.SKU. It is the use case of this service.
//
// An SKU that the store does not have is refused before its lock is asked for. For that the store is read once when
// this instance first hears of the SKU under a strategy with a lock; what is known costs no round trip. One that has
// vanished since is locked once more, at most, by each request under way.
//
// Once a stock was seen sold out, whoever asks for more than is left is refused by one read of the store that all share
// who came before it was sent, and not by the strategy: see [refusals]. A sale of the lab is always the strategy's.
//
// When ctx ends the sale leaves the queue; once it is in the critical section it is finished, for no longer than
// Config.Work.
//
// A request with the Key of one that has sold is not sold again: it gets the order of the first one, and Replayed. The
// key is looked for when a sale has failed, and not before it: a first request with a key costs no round trip more than
// one without, and the store itself refuses to write the same key twice. A refusal is not kept with the key, because it
// changes nothing: the same key may ask again. A request that is told ErrOutcomeUnknown may be sent again with its key.
//
// Errors: InvalidError, ErrUnknownStrategy, lock.DownError, DataLostError, lock.ErrOverloaded, ErrKeyReused,
// ErrKeyInFlight, and as an OrderError what the lock and the store return.
func (s *Service) Deduct(ctx context.Context, req Request) (Receipt, error) {
	if s.Watch != nil {
		return s.watched(ctx, req)
	}
	return s.keyed(ctx, req)
}

// keyed is Deduct, told to nobody.
func (s *Service) keyed(ctx context.Context, req Request) (Receipt, error) {
	if req.Key == (Key{}) {
		return s.deduct(ctx, req)
	}
	if !s.keys.enter(req.Key.ID) {
		return Receipt{}, ErrKeyInFlight
	}
	defer s.keys.leave(req.Key.ID)
	receipt, err := s.deduct(ctx, req)
	if err == nil {
		return receipt, nil
	}
	first, found, unseen := s.replay(ctx, req)
	switch {
	case errors.Is(unseen, ErrKeyReused):
		return Receipt{}, unseen
	case found:
		return first, nil
	case errors.Is(err, ErrKeyTaken):
		// It was there when the sale was to be written, and could not be read now.
		down := lock.Down("look for the order of the key", errors.New("it cannot be read"))
		return Receipt{}, errors.Join(down, unseen)
	}
	return Receipt{}, err
}

// A deduction is a request with what its names stand for.
type deduction struct {
	Request
	strategy StrategyConfig
	store    StoreConfig
	backing  []Dependency // the server of the store, and its data
	needs    []Dependency // those, and what the strategy needs
}

// deduct is Deduct for a request whose key, if it has one, is not known to be taken.
func (s *Service) deduct(ctx context.Context, req Request) (Receipt, error) {
	if req.Quantity < 1 || req.Quantity > MaxQuantity {
		return Receipt{}, Invalid("quantity", "from-to", "least", 1, "most", MaxQuantity)
	}
	strategy, ok := s.Strategies[req.Strategy]
	if !ok {
		return Receipt{}, fmt.Errorf("%w %q", ErrUnknownStrategy, req.Strategy)
	}
	store, err := s.storeConfig(strategy, &req)
	if err != nil {
		return Receipt{}, err
	}
	defer s.underway.Leave()
	if err := s.underway.Enter(s.Waiting); err != nil {
		return Receipt{}, err
	}
	d := &deduction{Request: req, strategy: strategy, store: store}
	d.needs = append(append(make([]Dependency, 0, 8), strategy.Needs...), store.Needs)
	if store.Data != nil {
		d.needs = append(d.needs, store.Data)
	}
	d.backing = d.needs[len(strategy.Needs):]
	receipt, err := s.attempt(ctx, d)
	if err != nil && s.endGuard(ctx, req.Store, req.SKU, err) {
		return s.attempt(ctx, d) // nobody guards the stock any more
	}
	return receipt, err
}

// attempt makes a deduction under a new order id.
func (s *Service) attempt(ctx context.Context, d *deduction) (Receipt, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Receipt{}, fmt.Errorf("make order id: %w", err)
	}
	failed := func(err error) (Receipt, error) { return Receipt{}, &OrderError{id.String(), err, d.SKU, d.Store} }
	if err := Ready(ctx, d.store.Data, d.needs...); err != nil {
		return Receipt{}, err
	}
	stock, known := stockKey{d.store.Store, d.SKU}, s.known[d.Store]
	if d.Lab == (Lab{}) {
		if err := s.soldOut.refuse(ctx, stock, d.backing, d.Strategy, d.Quantity); err != nil {
			known.forget(d.SKU, err)
			return failed(slow(err, d.needs...))
		}
	}
	ctx, done := While(ctx, d.needs...)
	defer done()
	if d.strategy.Lock != nil {
		if err := s.mustExist(ctx, d); err != nil {
			return failed(err)
		}
	}
	stops := s.stops(d.Request)
	defer stops.end()
	if err := stops.at(ctx, BeforeLock); err != nil {
		return Receipt{}, err
	}
	wait, tryOnce, cancel := Wait(ctx, d.wait(s.Wait), s.Work)
	defer cancel()
	sale := s.sale(id.String(), d.Request, stops)
	sale.Options.TryOnce = tryOnce
	sale.tell(Waits)
	// When the client disconnects, ctx and the wait end. The work goes on.
	err = d.strategy.Seller(WithWait(context.WithoutCancel(ctx), wait), d.store.Store, sale)
	lost := errors.Is(err, lock.ErrLost)
	if err != nil && !(sale.written && lost) {
		known.forget(d.SKU, err)
		if out, short := errors.AsType[*SoldOutError](err); short {
			s.soldOut.note(stock, out.Remaining)
		}
		return failed(slow(err, d.needs...))
	}
	_ = stops.at(ctx, AfterUnlock) // an error changes nothing: the order is written
	return sale.receipt(d.Store, lost), nil
}

// mustExist fails with ErrUnknownSKU if the store does not have the SKU. It reads the store the first time that this
// instance is asked for the SKU.
func (s *Service) mustExist(ctx context.Context, d *deduction) error {
	return s.known[d.Store].Check(d.SKU, func() error {
		ctx, cancel := context.WithTimeout(ctx, s.Work)
		defer cancel()
		_, err := d.store.Store.Read(ctx, d.SKU)
		return err
	})
}

// wait returns how long the deduction waits for the lock; 0: it tries once.
func (d *deduction) wait(byDefault time.Duration) time.Duration {
	switch {
	case d.Wait != nil:
		return *d.Wait
	case !d.strategy.Blocking:
		return 0
	}
	return byDefault
}

// StoreFor is the store of a request that names none: the default, or if the strategy does not work on it, the
// first that it does.
func (s *Service) StoreFor(strategy StrategyConfig) string {
	if len(strategy.Stores) > 0 && !slices.Contains(strategy.Stores, s.DefaultStore) {
		return strategy.Stores[0]
	}
	return s.DefaultStore
}

func (s *Service) storeConfig(strategy StrategyConfig, req *Request) (StoreConfig, error) {
	if req.Store == "" {
		req.Store = s.StoreFor(strategy)
	}
	name := req.Store
	config, ok := s.Stores[name]
	switch {
	case !ok:
		return StoreConfig{}, Invalid("store", "one-of", "list", slices.Sorted(maps.Keys(s.Stores)))
	case len(strategy.Stores) > 0 && !slices.Contains(strategy.Stores, name):
		return StoreConfig{}, Invalid("store", "stores-for", "stores", strategy.Stores, "strategy", req.Strategy)
	}
	return config, nil
}
