package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/stock/lock"
)

// A StrategyConfig is a Seller that requests can select by name.
type StrategyConfig struct {
	Seller    Seller
	Blocking  bool     // requests wait by default; otherwise they try once, unless they ask to wait
	Stores    []string // the stores that it works on, the default first; empty: all
	Needs     []Dependency
	Lock      lock.Locker // that the Seller uses, to inspect it and to evict from it; nil: there is none
	Segmented bool        // the Lock has a key for each segment of a SKU, such as "sku#3"
	Weak      bool        // the strategy stops guarding a stock after GuardIdle without a write
}

// A StoreConfig is a store that requests can select by name.
type StoreConfig struct {
	Store Shop
	Needs Dependency
	Data  Data // whether the store has its data; of a store that is trusted to keep them: Trusted
}

// Config has the settings of a Service.
type Config struct {
	Instance     string                    // the name of this instance, in orders and replies
	Strategies   map[string]StrategyConfig // by strategy
	Stores       map[string]StoreConfig    // by store
	DefaultStore string                    // the store of requests that name none
	Wait         time.Duration             // how long a Blocking strategy waits if the request does not say
	// Work is the time limit of the critical section, and of any other call of the store. A sale without a lock may
	// take twice Work: once in the store's queue, once in the store.
	Work   time.Duration
	Pauses *Pauses // lab mode: the sales that wait at a point; nil: sales cannot be paused
	Watch  Watcher // lab mode: gets the steps of each sale, and lets sales under way be paused; nil: none
	// Waiting is the largest number of sales that wait or work at a time; 0: no limit. More are refused with
	// lock.ErrOverloaded.
	Waiting int
}

// A Service sells. It is safe for concurrent use.
type Service struct {
	Config
	// known has the SKUs that this instance has found in a store or has set. With 64 bytes per SKU it needs some 10 MB.
	known     *memory[stockKey, struct{}]
	idle      *memory[stockKey, idleStock]
	soldOut   *soldOut
	admission admission
}

// The most stocks that a Service remembers: as known, as sold out, and as idle under a guard that has refused a sale.
const (
	maxKnown   = 50_000
	maxSoldOut = 1024
	maxIdle    = 1000
)

// New makes a Service.
func New(c Config) *Service {
	return &Service{
		Config: c, known: newMemory[stockKey, struct{}](maxKnown), idle: newMemory[stockKey, idleStock](maxIdle),
		soldOut: newSoldOut(c.Work),
	}
}

// A Request asks for a deduction.
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

// A Receipt describes a deduction: what it read and wrote, and when.
type Receipt struct {
	Order
	Store                  string
	HolderFence            lock.Fence // Order.Fence is what the write carried: less in the lab
	Waited, Held           time.Duration
	AcquiredAt, ReleasedAt time.Time
	// ReadAt is when the quantity arrived, and WrittenAt when the reply to the write arrived. If the store reads and
	// writes in one step, they are equal. In a transaction both are before the commit.
	ReadAt, WrittenAt time.Time
	// Tries is how often the sale read: more than once after a conflict, or if a segment had to be refilled.
	Tries     int
	Wakeups   int      // how often the lock's server woke the sale while it waited; see lock.Options.OnWake
	LeaseLost bool     // the lease was lost after the order was written: the order stands
	Batch     *InBatch // the batch in which the unit was sold; nil: the seller does not merge
	// Replayed means that an earlier request with the same Key wrote the order. Then all times are CreatedAt.
	Replayed bool
}

// Deduct sells req.Quantity units of req.SKU.
//
// A SKU that the store does not have is refused before its lock is acquired. For this, the first request for a SKU
// under a strategy with a lock reads the store once; see mustExist.
//
// Once a SKU is known to be sold out, concurrent requests share one read of the store and are refused by its result;
// see [soldOut]. Requests with lab options are excepted.
//
// When ctx ends, a waiting sale leaves the queue. A sale in the critical section is finished, within Config.Work.
//
// If an earlier request with the same Key has sold, Deduct returns its order, with Replayed set. The store refuses to
// write a key twice, so Deduct looks for the first order only after a sale has failed: a new key costs no round trip.
// It does not look for it if the request is refused before it is tried, as invalid or with lock.ErrOverloaded.
// A refusal changes nothing and is not stored with the key, so the key may be sent again. The same is true after
// ErrOutcomeUnknown.
//
// Errors: InvalidError, ErrUnknownStrategy, driver.DownError, DataLostError, SoldOutError, lock.ErrOverloaded,
// ErrKeyReused, ErrKeyInFlight, and the errors of a sale that has an order id as an OrderError.
func (s *Service) Deduct(ctx context.Context, req Request) (receipt Receipt, err error) {
	if s.Watch != nil {
		s.Watch.Tell(stepOf(req, Arrived))
	}
	d, err := s.admit(req)
	if err == nil {
		defer s.admission.leave(d.Key)
		receipt, err = s.attempt(ctx, &d)
		if err != nil && s.endGuard(ctx, &d, err) {
			receipt, err = s.attempt(ctx, &d) // nobody guards the stock any more
		}
		if err != nil && d.Key != (Key{}) {
			receipt, err = s.replay(ctx, &d, err)
		}
	}
	s.tellEnded(req, receipt, err)
	return receipt, err
}

// A deduction is a request with the strategy and the store that it names.
type deduction struct {
	Request
	strategy StrategyConfig
	store    StoreConfig
	stock    stockKey
	backing  []Dependency // the server of the store, and its data
	needs    []Dependency // those, and what the strategy needs
}

// admit finds the strategy and the store of a request, and admits it. If it does, the caller must call
// s.admission.leave.
func (s *Service) admit(req Request) (deduction, error) {
	if req.Quantity < 1 || req.Quantity > MaxQuantity {
		return deduction{}, Invalid("quantity", "from-to", "least", 1, "most", MaxQuantity)
	}
	strategy, ok := s.Strategies[req.Strategy]
	if !ok {
		return deduction{}, fmt.Errorf("%w %q", ErrUnknownStrategy, req.Strategy)
	}
	if req.Store == "" {
		req.Store = s.defaultStore(strategy)
	}
	store, err := s.storeConfig(req.Store)
	switch {
	case err != nil:
		return deduction{}, err
	case len(strategy.Stores) > 0 && !slices.Contains(strategy.Stores, req.Store):
		return deduction{}, Invalid("store", "stores-for", "stores", strategy.Stores, "strategy", req.Strategy)
	}
	needs := append(make([]Dependency, 0, 8), strategy.Needs...)
	needs = append(needs, store.Needs, store.Data)
	d := deduction{
		Request: req, strategy: strategy, store: store, stock: stockKey{store.Store, req.SKU},
		backing: needs[len(strategy.Needs):], needs: needs,
	}
	return d, s.admission.enter(req.Key, s.Waiting)
}

// attempt tries the deduction once. A sale that is not refused before gets a new order id.
func (s *Service) attempt(ctx context.Context, d *deduction) (Receipt, error) {
	if err := d.ready(ctx); err != nil {
		return Receipt{}, err
	}
	if d.Lab == (Lab{}) {
		if err := s.soldOut.refuse(ctx, d); err != nil {
			s.forget(d.stock, err)
			return Receipt{}, slow(err, d.needs...)
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Receipt{}, fmt.Errorf("make order id: %w", err)
	}
	failed := func(err error) (Receipt, error) { return Receipt{}, &OrderError{id.String(), err, d.SKU, d.Store} }
	if d.strategy.Lock != nil {
		if err := s.mustExist(ctx, d); err != nil {
			return failed(err)
		}
	}
	stops := s.stops(d.Request)
	defer stops.end()
	if err := stops.at(ctx, BeforeLock, d.needs...); err != nil {
		return Receipt{}, err
	}
	limit := d.limit(s.Wait)
	sale := s.sale(id.String(), d.Request, stops)
	sale.TryOnce = limit == 0
	sale.tell(Waits)
	// If the client disconnects, ctx and the wait end, but the work goes on.
	work := WithWait(context.WithoutCancel(ctx), d.wait(ctx, limit, s.Work))
	err = d.strategy.Seller(work, d.store.Store, sale)
	lost := errors.Is(err, lock.ErrLost)
	if err != nil && !(sale.written && lost) {
		s.forget(d.stock, err)
		if out, short := errors.AsType[*SoldOutError](err); short {
			s.soldOut.left.put(d.stock, out.Remaining)
		}
		return failed(slow(err, d.needs...))
	}
	_ = stops.at(ctx, AfterUnlock, d.needs...) // an error changes nothing: the order is written
	return sale.receipt(d.Store, lost), nil
}

// mustExist fails with ErrUnknownSKU if the store does not have the SKU. It reads the store unless this instance
// knows the SKU. Lock servers store something for every key that was ever locked, a fence in Redis, a row in MySQL: so
// a request for a SKU that does not exist must not acquire a lock. The store checks again in the critical section.
func (s *Service) mustExist(ctx context.Context, d *deduction) error {
	if _, known := s.known.get(d.stock); known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Work)
	defer cancel()
	_, err := d.store.Store.Read(ctx, d.SKU)
	if err == nil {
		s.known.put(d.stock, struct{}{})
	}
	return err
}

// forget forgets a SKU that the store does not have any more, as err says.
func (s *Service) forget(stock stockKey, err error) {
	if errors.Is(err, ErrUnknownSKU) {
		s.known.remove(stock)
	}
}

// defaultStore returns the store of a request that names none: the default store, or the first store of the strategy if
// the strategy does not support the default.
func (s *Service) defaultStore(strategy StrategyConfig) string {
	if len(strategy.Stores) > 0 && !slices.Contains(strategy.Stores, s.DefaultStore) {
		return strategy.Stores[0]
	}
	return s.DefaultStore
}

// storeConfig returns the named store, or the default one if name is empty.
func (s *Service) storeConfig(name string) (StoreConfig, error) {
	config, ok := s.Stores[cmp.Or(name, s.DefaultStore)]
	if !ok {
		return StoreConfig{}, Invalid("store", "one-of", "list", slices.Sorted(maps.Keys(s.Stores)))
	}
	return config, nil
}
